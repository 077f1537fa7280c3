"""Doing what was decided: one door from a deed to the hands, in earnest or rehearsed."""

from collections.abc import Callable, Mapping
from typing import assert_never

from fallow.actuators.helpers import Helpers
from fallow.actuators.hooks import Hooks, RehearsedHooks, SystemHooks
from fallow.actuators.power import Power, PowerAction, RehearsedPower, SystemPower
from fallow.core.actions import Deed, EndGuard, Notify, PowerOff, Reboot, RunCommand, SendSignal
from fallow.core.errors import NotPermitted
from fallow.core.outcome import Outcome
from fallow.core.units import printable
from fallow.engine.world import World
from fallow.readers.terminals import Terminals


class Hands:
    """Power, commands and notices; a rehearsal has another pair, which only say what they would do."""

    def __init__(self, power: Power, hooks: Hooks, helpers: Helpers) -> None:
        self.power = power
        self.hooks = hooks
        self.helpers = helpers


def hands(world: World, *, rehearse: bool) -> Hands:
    """The hands of this machine, or those of a rehearsal."""
    helpers = Helpers(world.clock.monotonic_s)
    power = SystemPower(helpers, world.environ, lambda: _terminals(world))
    if rehearse:
        return Hands(RehearsedPower(power), RehearsedHooks(), helpers)
    return Hands(power, SystemHooks(helpers), helpers)


def check_rights(deeds: tuple[Deed, ...], power: Power, *, rehearse: bool, tell: Callable[[str], None]) -> None:
    """Say at the start what could not be done at the end. Only a rehearsal goes on all the same."""
    for deed in deeds:
        action = _POWER.get(type(deed))
        why = None if action is None else power.can(action)
        if why is None:
            continue
        if not rehearse:
            raise NotPermitted(why)
        tell(why)


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


def touches_machine(deeds: tuple[Deed, ...]) -> bool:
    """Whether one of them ends everything on the machine, so that every hold forbids it."""
    return any(type(deed) in _POWER for deed in deeds)


def _terminals(world: World) -> list[str]:
    people = Terminals(world.clock).people()
    return [f"/dev/{person.terminal}" for person in people] if isinstance(people, list) else []


_POWER: dict[type, PowerAction] = {PowerOff: PowerAction.SHUTDOWN, Reboot: PowerAction.REBOOT}
