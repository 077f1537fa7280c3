"""Running the checks, all at once and each by itself."""

import threading
from collections.abc import Callable, Iterable, Mapping

from fallow.core.examined import Examined, broken
from fallow.engine.checkup import cards, folders, machine, rights, service
from fallow.engine.world import World

Check = Callable[[World], Iterable[Examined]]
CHECKS: Mapping[str, Check] = {
    "driver": cards.examine,
    "processes": machine.processes,
    "container": machine.container,
    "terminals": machine.terminals,
    "clock": machine.clock,
    "claims": folders.claims,
    "state": folders.state,
    "journal": folders.journal,
    "history": folders.history,
    "config": folders.configuration,
    "signals": rights.signals,
    "power": rights.power,
    "stacks": rights.stacks,
    "daemon": service.daemon,
    "service": service.unit,
    "parts": service.parts,
}
_LIMIT_S = 40.0  # opening a card that sleeps, and asking logind, may take half a minute each


def examine(world: World, checks: Mapping[str, Check] = CHECKS, limit_s: float = _LIMIT_S) -> list[Examined]:
    """Everything that was found, in the order of the checks."""
    found: dict[str, list[Examined]] = {}
    threads = {
        name: threading.Thread(target=_run, args=(name, check, world, found), daemon=True)
        for name, check in checks.items()
    }
    for thread in threads.values():
        thread.start()
    until_s = world.clock.monotonic_s() + limit_s
    rows: list[Examined] = []
    for name, thread in threads.items():
        thread.join(max(0.0, until_s - world.clock.monotonic_s()))
        late = broken(name, f"it could not be examined: no answer within {limit_s:g} s")
        rows.extend([late] if thread.is_alive() else found[name])
    return rows


def _run(name: str, check: Check, world: World, found: dict[str, list[Examined]]) -> None:
    try:
        found[name] = list(check(world))
    except Exception as error:  # noqa: BLE001  a check that fails is a finding, and the others go on
        found[name] = [broken(name, f"it could not be examined: {type(error).__name__}: {error}")]
