"""Perform actions on the host: run a command, send a notice, power off. Every such action goes through here."""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from fallow.actuators.host import notice
from fallow.actuators.host.hooks import DryRunHooks, Hooks, SystemHooks, unreadable
from fallow.actuators.host.power import DryRunPower, Power, SystemPower
from fallow.core.actions import EndGuard, HostAction, Notify, PowerOff, Reboot, RunCommand, SendSignal
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.units import printable
from fallow.engine.jobs.executor import Executor, ThreadExecutor
from fallow.engine.machine.world import World
from fallow.readers.accounts import run_as


class HostActuators:
    """Power, commands and notices, and what runs them. Those of a dry run only say what they would do."""

    def __init__(self, power: Power, hooks: Hooks, executor: Executor) -> None:
        self.power = power
        self.hooks = hooks
        self.executor = executor


def host_actuators(world: World, *, dry_run: bool, user: str | None = None) -> HostActuators:
    """Return the actuators of this machine, or those of a dry run. `user`: the account that commands run as.

    The power is that of the real machine, so simulated GPUs never touch it.
    """
    real = SystemPower(world.environ)
    if dry_run:
        return HostActuators(DryRunPower(real), DryRunHooks(), ThreadExecutor())
    power = real if world.simulated is None else DryRunPower(real, "not done: the GPUs are simulated")
    hooks = SystemHooks(world.environ, run_as(user, world.environ))
    return HostActuators(power, hooks, ThreadExecutor())


def shortcomings(
    actions: Sequence[HostAction],
    host_actuators: HostActuators,
    environ: Mapping[str, str],
    signals: Callable[[], FallowError | None],
) -> list[FallowError]:
    """Return why these actions could never be done here, to be reported at the start, not when they are due."""
    return [error for error in each_shortcoming(actions, host_actuators, environ, signals) if error is not None]


def each_shortcoming(
    actions: Sequence[HostAction],
    host_actuators: HostActuators,
    environ: Mapping[str, str],
    signals: Callable[[], FallowError | None],
) -> list[FallowError | None]:
    """Return for each action why it could never be done here, or None.

    `guard`, `check` and `up` all refuse with these words.
    `signals`: why the process that a signal is for cannot be signalled.
    """
    addresses = [action.url for action in actions if isinstance(action, Notify)]
    to_send = iter(notice.refusals(environ, addresses))
    found: list[FallowError | None] = []
    for action in actions:
        match action:
            case EndGuard():
                found.append(None)
            case SendSignal():
                found.append(signals())
            case RunCommand(line=line):
                found.append(unreadable(line, environ))
            case Notify():
                found.append(next(to_send))
            case PowerOff() | Reboot():
                found.append(host_actuators.power.can(action))
            case _:
                assert_never(action)
    return found


def refuse(found: Sequence[FallowError], say: Callable[[str], None], *, dry_run: bool) -> None:
    """Raise the first error. A dry run reports each, and goes on."""
    for error in found:
        if not dry_run:
            raise error
        say(str(error))


def perform(
    action: HostAction,
    host_actuators: HostActuators,
    send_signal: Callable[[str], Outcome],
    title: str,
) -> Outcome:
    """Perform the action; return its outcome."""
    match action:
        case EndGuard():
            return Outcome(True, "the guard ends")
        case SendSignal(name=name):
            return send_signal(name)
        case RunCommand(line=line, because=because):
            return host_actuators.hooks.run_command(line, {"FALLOW_BECAUSE": printable(because)})
        case Notify(url=url, because=because):
            return host_actuators.hooks.notify(url, title, because)
        case PowerOff(because=because) | Reboot(because=because):
            return host_actuators.power.do(action, because)
    assert_never(action)


def nobody_to_signal() -> FallowError | None:
    """Return the error for a signal where no process can be named, as in a config."""
    return WrongUsage("there is no process that a signal could go to; name it with fallow guard --attach PID")


def touches_machine(actions: tuple[HostAction, ...]) -> bool:
    """Return whether one of the actions ends everything on the machine, so that every protection forbids it."""
    return any(isinstance(action, PowerOff | Reboot) for action in actions)
