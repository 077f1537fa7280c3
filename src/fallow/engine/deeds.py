"""Doing what was decided: one door from a deed to the hands, in earnest or rehearsed."""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from fallow.actuators import postbox
from fallow.actuators.helpers import Helpers
from fallow.actuators.hooks import Hooks, RehearsedHooks, SystemHooks, no_such_command
from fallow.actuators.power import Power, PowerAction, RehearsedPower, SystemPower
from fallow.core.actions import Deed, EndGuard, Notify, PowerOff, Reboot, RunCommand, SendSignal
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.outcome import Outcome
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.engine.guises import guise_of
from fallow.engine.world import World


class Hands:
    """Power, commands and notices; a rehearsal has another pair, which only say what they would do."""

    def __init__(self, power: Power, hooks: Hooks, helpers: Helpers) -> None:
        self.power = power
        self.hooks = hooks
        self.helpers = helpers


def hands(world: World, *, rehearse: bool, user: str | None = None) -> Hands:
    """The hands of this machine, or those of a rehearsal. `user`: whom commands run as, where a config says so."""
    helpers = Helpers(world.clock.monotonic_s)
    power = SystemPower(helpers, world.environ, lambda: _terminals(world))
    if rehearse:
        return Hands(RehearsedPower(power), RehearsedHooks(), helpers)
    guise = guise_of(user, world.environ)
    runs_as = None if guise is None else (guise.account, guise.environ)
    return Hands(power, SystemHooks(helpers, world.environ, runs_as), helpers)


def shortcomings(
    deeds: Sequence[Deed], hands: Hands, environ: Mapping[str, str], signals: Callable[[], FallowError | None]
) -> list[FallowError]:
    """What of this could never be done here: to be told at the start, not in the night."""
    return [error for error in each_shortcoming(deeds, hands, environ, signals) if error is not None]


def each_shortcoming(
    deeds: Sequence[Deed], hands: Hands, environ: Mapping[str, str], signals: Callable[[], FallowError | None]
) -> list[FallowError | None]:
    """Why each deed could never be done here; None for those that can.

    The one place that says so, for every face: `guard`, `run --then`, `check` and `up` refuse in the same words.
    `signals`: why the process that a signal is for cannot be signalled.
    """
    addresses = [deed.url for deed in deeds if isinstance(deed, Notify)]
    to_send = iter(postbox.refusals(hands.helpers, environ, addresses))
    found: list[FallowError | None] = []
    for deed in deeds:
        match deed:
            case EndGuard():
                found.append(None)
            case SendSignal():
                found.append(signals())
            case RunCommand(line=line):
                found.append(no_such_command(line, environ, hands.helpers))
            case Notify():
                found.append(next(to_send))
            case PowerOff() | Reboot():
                why = hands.power.can(_POWER[type(deed)])
                found.append(None if why is None else NotPermitted(why))
            case _:
                assert_never(deed)
    return found


def refuse(found: Sequence[FallowError], *, rehearse: bool, tell: Callable[[str], None]) -> None:
    """Do not even begin with what cannot be done. Only a rehearsal goes on all the same, and says it."""
    for error in found:
        if not rehearse:
            raise error
        tell(str(error))


def do(
    deed: Deed, hands: Hands, environ: Mapping[str, str], send_signal: Callable[[str], Outcome], title: str
) -> Outcome:
    """Do it; what came of it."""
    match deed:
        case EndGuard():
            return Outcome(True, "the guard ends")
        case SendSignal(name=name):
            return send_signal(name)
        case RunCommand(line=line, because=because):
            return hands.hooks.run_command(line, {**environ, "FALLOW_BECAUSE": printable(because)})
        case Notify(url=url, because=because):
            return hands.hooks.notify(url, title, because)
        case PowerOff(because=because):
            return hands.power.do(PowerAction.SHUTDOWN, because)
        case Reboot(because=because):
            return hands.power.do(PowerAction.REBOOT, because)
    assert_never(deed)


def nobody_to_signal() -> FallowError | None:
    """Where no process can be named: in a config, and after a job."""
    return WrongUsage("there is no process that a signal could go to; name it with fallow guard --attach PID")


def touches_machine(deeds: tuple[Deed, ...]) -> bool:
    """Whether one of them ends everything on the machine, so that every hold forbids it."""
    return any(type(deed) in _POWER for deed in deeds)


def _terminals(world: World) -> list[str]:
    people = world.terminals().people()
    if isinstance(people, Unknown):
        return []
    return [f"/dev/{person.terminal}" for person in people if person.terminal is not None]


_POWER: dict[type, PowerAction] = {PowerOff: PowerAction.SHUTDOWN, Reboot: PowerAction.REBOOT}
