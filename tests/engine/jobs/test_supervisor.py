"""A job that works is never stopped, whatever the driver answers; one that idles is, when its time has come."""

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.conftest import Fallow
from tests.length import PLANS
from tests.places import REPOSITORY
from tests.readers.test_fault_plans import Fault, fault
from tests.standin import Process, World

GIB = 2**30
HOUR_S = 3600.0


class Resident:
    """Supervises in driven time, in a process of its own."""

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.jobs.supervised_resident"],
            env={**environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def __call__(self, changes: list[Callable[[], None]] | None = None, **asked: Any) -> dict[str, Any]:
        """Supervise one job; `changes` are made at its pauses, in order."""
        todo = list(changes or [])
        self._say(json.dumps({"timeout_s": 5.0, "warmup_s": 2.0, "every_s": 1.0, **asked}))
        assert self._process.stdout is not None
        while (answer := json.loads(self._process.stdout.readline())) == "paused":
            todo.pop(0)()
            self._say("go on")
        found: dict[str, Any] = answer
        return found

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        with self._process:
            self._process.kill()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, library: pathlib.Path) -> Iterator[tuple[World, Resident]]:
    home = tmp_path_factory.mktemp("supervised")
    world = World.create(home / "world", cards=4)
    environ = {**Fallow(home).environ, **world.environ(library), "FALLOW_DRIVER_TIMEOUT": "0.3"}
    resident = Resident(environ)
    yield world, resident
    world.heal()
    resident.leave()
    world.close()


@pytest.fixture
def quiet(house: tuple[World, Resident]) -> tuple[World, Resident]:
    """A job that holds card 0 and does nothing yet."""
    world, resident = house
    protection(world, resident.pid)
    return world, resident


def protection(world: World, pid: int, load: int = 0) -> None:
    card = world[0]
    card.compute, card.memory_used = [Process(pid, 2 * GIB)], 2 * GIB
    card.utilization = load
    card.gpm = {2: float(load), 3: load / 10, 5: load / 2, 10: load / 5, 20: 0.0, 21: 0.0}
    card.power_mw = 128_000 + load * 5000


def let_threads_out(world: World) -> None:
    world.heal()
    while world.stuck():
        time.sleep(0.001)


@pytest.mark.more
@settings(
    max_examples=PLANS,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=st.lists(fault, min_size=1, max_size=4), load=st.integers(5, 100), onset=st.integers(0, 6))
def test_a_job_that_works_is_never_stopped_whatever_the_driver_answers(
    house: tuple[World, Resident], plan: list[Fault], load: int, onset: int
) -> None:
    world, resident = house
    protection(world, resident.pid, load)

    def break_things() -> None:
        for function, card, what in plan:
            world.fault(function, card=min(card, 0), **what)  # type: ignore[arg-type]

    try:
        answer = resident([break_things], seconds=16.0, stuck_s=5.0, pauses=[float(onset)])
    finally:
        let_threads_out(world)
    event("a fault that hangs" if any(what.get("never") for _, _, what in plan) else "a fault that answers")
    assert answer["asked_at_s"] == [], answer["told"]


def test_a_job_that_idles_is_asked_after_warm_up_and_timeout(quiet: tuple[World, Resident]) -> None:
    _, resident = quiet
    answer = resident(seconds=60.0)
    assert len(answer["asked_at_s"]) == 1
    assert 7.0 <= answer["asked_at_s"][0] <= 9.0
    assert "will be stopped" in answer["told"][0], "warned before asked"
