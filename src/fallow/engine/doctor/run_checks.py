"""Run all checks at the same time, each in its own thread."""

import threading
from collections.abc import Callable, Iterable, Mapping

from fallow.engine.doctor import container, folders, gpus, installed, machine, permissions, service
from fallow.engine.doctor.finding import CheckFinding, broken
from fallow.engine.machine.world import World

Check = Callable[[World], Iterable[CheckFinding]]
CHECKS: Mapping[str, Check] = {
    "driver": gpus.examine,
    "processes": machine.processes,
    "container": container.examine,
    "terminals": machine.terminals,
    "claims": folders.claims,
    "state": folders.state,
    "journal": folders.journal,
    "history": folders.history,
    "config": folders.configuration,
    "signals": permissions.signals,
    "power": permissions.power,
    "stacks": permissions.stacks,
    "daemon": service.daemon,
    "service": service.unit,
    "command": installed.program,
}
_LIMIT_S = 40.0  # opening a GPU that sleeps, and asking logind, may take half a minute each


def examine(world: World, checks: Mapping[str, Check] = CHECKS, limit_s: float = _LIMIT_S) -> list[CheckFinding]:
    """Return all findings, in the order of the checks."""
    found: dict[str, list[CheckFinding]] = {}
    threads = {
        name: threading.Thread(target=_run, args=(name, check, world, found), daemon=True)
        for name, check in checks.items()
    }
    for thread in threads.values():
        thread.start()
    until_s = world.clock.monotonic_s() + limit_s
    rows: list[CheckFinding] = []
    for name, thread in threads.items():
        thread.join(max(0.0, until_s - world.clock.monotonic_s()))
        late = broken(name, f"the check did not end: no answer within {limit_s:g} s")
        rows.extend([late] if thread.is_alive() else found[name])
    return rows


def _run(name: str, check: Check, world: World, found: dict[str, list[CheckFinding]]) -> None:
    try:
        found[name] = list(check(world))
    except Exception as error:  # noqa: BLE001  a check that fails is a finding, and the others go on
        found[name] = [broken(name, f"the check failed: {type(error).__name__}: {error}")]
