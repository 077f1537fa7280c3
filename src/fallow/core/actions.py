"""Everything that fallow can do to the world: a closed set of actions, each with its reason.

    for a job      Warn -> Ask -> Kill, and CancelWarning for a warning that no longer applies
    for a guard    Announce -> its actions in order, and CallOff for a countdown that no longer applies
    for the host   EndGuard, SendSignal, RunCommand, Notify, PowerOff, Reboot

Code that distinguishes actions does so with `match`, and ends in `assert_never`.
"""

from typing import assert_never

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.reasons import Reason, WithReason
from fallow.core.units import duration_for_people, program_name
from fallow.core.value import value

AS_ASKED = Reason("as_asked")

_SIGNALS = frozenset(
    (
        *("HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "USR2", "PIPE", "ALRM", "TERM", "CHLD", "CONT", "STOP"),
        *("TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR"),
    )
)  # those that one process sends to another
_UNCATCHABLE = ("KILL", "STOP")
ACTION_WORDS = ("end", "signal", "run", "notify", "shutdown", "reboot")
_WAYS = "end, signal, signal:NAME, run:COMMAND, notify:URL, shutdown or reboot"


@value
class Warn(WithReason):
    """Warn the people of a job that it will be asked to end, or parked."""

    reason: Reason
    ask_in_s: float
    parks: bool = False
    """Whether it will be parked, if that is possible."""
    stops: bool = True
    """Whether it will be asked to end where it is not parked."""


@value
class CancelWarning(WithReason):
    """Tell the people of a job that the warning no longer applies."""

    reason: Reason


@value
class Ask(WithReason):
    """Send the job its polite signal; or park it, and send the signal only if that fails."""

    reason: Reason
    signal: str = "TERM"
    grace_s: float = 0.0
    """How long the job has to end before it is killed."""
    parks: bool = False
    """Whether it is parked, if that is possible."""
    stops: bool = True
    """Whether it is asked to end where it is not parked."""
    requeues: bool = False
    """Whether the engine of a cluster puts the job back into its queue, instead of ending it for good."""


@value
class Kill(WithReason):
    """Kill what is left of the job."""

    reason: Reason
    requeues: bool = False
    """Whether the engine of a cluster puts the job back into its queue."""


@value
class Announce(WithReason):
    """Announce to all people on the machine that the actions follow after a countdown."""

    reason: Reason
    in_s: float


@value
class CallOff(WithReason):
    """Announce to all people on the machine that the actions will not follow."""

    reason: Reason


@value
class EndGuard(WithReason):
    """End the guard itself, and nothing else."""

    reason: Reason = AS_ASKED


@value
class SendSignal(WithReason):
    """Send a signal to the process that the guard was attached to."""

    name: str = "TERM"
    reason: Reason = AS_ASKED


@value
class RunCommand(WithReason):
    """Run a line in a shell."""

    line: str
    reason: Reason = AS_ASKED


@value
class Notify(WithReason):
    """Send a notice."""

    url: str
    reason: Reason = AS_ASKED


@value
class PowerOff(WithReason):
    """Turn the machine off."""

    reason: Reason = AS_ASKED


@value
class Reboot(WithReason):
    """Restart the machine."""

    reason: Reason = AS_ASKED


JobAction = Warn | CancelWarning | Ask | Kill
_KINDS = {Warn: "warn", CancelWarning: "cancel_warning", Ask: "ask", Kill: "kill"}
HostAction = EndGuard | SendSignal | RunCommand | Notify | PowerOff | Reboot
GuardAction = Announce | CallOff | HostAction
Action = JobAction | GuardAction


def parse_action(text: str) -> HostAction:
    """Return the action a person wrote: `end`, `signal[:NAME]`, `run:CMD`, `notify:URL`, `shutdown` or `reboot`."""
    word, colon, rest = text.strip().partition(":")
    match word.strip().lower(), rest.strip():
        case "end", "" if not colon:
            return EndGuard()
        case "shutdown", "" if not colon:
            return PowerOff()
        case "reboot", "" if not colon:
            return Reboot()
        case "signal", name:
            return SendSignal(signal_name(name)) if colon else SendSignal()
        case "run", line if line:
            return RunCommand(line)
        case "notify", url if "://" in url:
            return Notify(url)
        case "run", _:
            raise WrongUsage(f"{text!r} says no command", "write it as run:COMMAND, as in 'run:make backup'")
        case "notify", _:
            raise WrongUsage(f"{text!r} says no address", "write it as notify:URL, as in notify:ntfy://my-topic")
        case "end" | "shutdown" | "reboot" as bare, _:
            raise WrongUsage(f"{text!r} says too much", f"write it as {bare}")
        case _:
            raise WrongUsage(f"{text!r} is not an action", did_you_mean(word, ACTION_WORDS) or f"write {_WAYS}")


def signal_name(text: str) -> str:
    """Return the name of a signal without its SIG: `TERM` of `term`, `TERM` or `SIGTERM`."""
    name = text.strip().upper().removeprefix("SIG")
    if name not in _SIGNALS:
        way = did_you_mean(name, _SIGNALS) or "write its name, as TERM, INT or USR1"
        raise WrongUsage(f"{text!r} is not a signal", way)
    return name


def warning_signal_name(text: str) -> str:
    """Return the name of a signal that a process can catch, so that it can save its work."""
    name = signal_name(text)
    if name in _UNCATCHABLE:
        raise WrongUsage(f"no process can catch SIG{name}", "write one that jobs catch to save their work, as USR1")
    return name


def kind_of(action: JobAction) -> str:
    """Return the word under which the metrics count an action on a job."""
    return "park" if isinstance(action, Ask) and action.parks else _KINDS[type(action)]


def what_follows(warning: Warn) -> str:
    """Return what a warning announces, after "will be". That a job is parked is promised to nobody: it may fail."""
    if not warning.parks:
        return "stopped"
    return "parked, or stopped if that is not possible," if warning.stops else "parked, if that is possible,"


def in_words(action: Action) -> str:
    """Return what the action does, to complete `fallow would …`."""
    match action:
        case Warn(ask_in_s=seconds, parks=parks):
            what = what_follows(action) if parks else "asked to end"
            return f"warn that the job will be {what} in {duration_for_people(seconds)}"
        case CancelWarning():
            return "cancel the warning"
        case Ask(signal=name, parks=parks):
            return "park the job" if parks else f"ask the job to end with SIG{name}"
        case Kill():
            return "kill what is left of the job"
        case Announce(in_s=seconds):
            return f"announce that it will act in {duration_for_people(seconds)}"
        case CallOff():
            return "call the countdown off"
        case EndGuard():
            return "end the guard"
        case SendSignal(name=name):
            return f"send SIG{name}"
        case RunCommand(line=line):
            return f"run {program_name(line)!r}"  # what follows may hold a secret, and many read this
        case Notify(url=url):
            return f"send a notice to {url.partition('://')[0]}"  # what follows the scheme may hold a secret
        case PowerOff():
            return "turn the machine off"
        case Reboot():
            return "restart the machine"
    assert_never(action)
