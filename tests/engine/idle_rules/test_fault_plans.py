"""Whatever the driver answers, or does not: a process that works is never warned of, asked or killed."""

import os
import pathlib
import subprocess
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.conftest import Fallow
from tests.engine.idle_rules.enforcer_resident import Resident
from tests.length import PLANS
from tests.places import LIMIT_S
from tests.readers.test_fault_plans import CARDS, Fault, fault
from tests.standin import Process, World

GIB = 2**30
RULE = {
    "name": "forgotten",
    "act": True,
    "idle_for": "5s",
    "stuck_for": "5s",
    "warmup": "2s",
    "warn_before": "2s",
    "grace": "1s",
}


class House:
    """A machine with four cards, a patrol, and one process on two of them."""

    def __init__(self, home: pathlib.Path, library: pathlib.Path) -> None:
        self.world = World.create(home / "world", cards=CARDS)
        self.environ = {**Fallow(home).environ, **self.world.environ(library), "FALLOW_DRIVER_TIMEOUT": "0.3"}
        self.patrol = Resident(self.environ)
        self.job = subprocess.Popen(["sleep", "1000"], start_new_session=True)

    def protection(self, loads: tuple[int, int]) -> None:
        for index, load in enumerate(loads):
            card = self.world[index]
            card.compute, card.memory_used = [Process(self.job.pid, 2 * GIB)], 2 * GIB
            card.utilization = load
            card.gpm = {2: float(load), 3: load / 10, 5: load / 2, 10: load / 5, 20: 0.0, 21: 0.0}
            card.power_mw = 128_000 + load * 5000

    def begin(self) -> None:
        self.patrol("begin", environ=self.environ, rules=[RULE], gpu_reader="driver")

    def heal(self) -> None:
        self.world.heal()
        while self.world.stuck():
            time.sleep(0.001)

    def leave(self) -> None:
        self.heal()
        self.patrol.leave()
        self.job.kill()
        self.job.wait(LIMIT_S)
        self.world.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, library: pathlib.Path) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("patrolled"), library)
    yield made
    made.leave()


@pytest.mark.more
@settings(
    max_examples=PLANS,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    plan=st.lists(fault, min_size=1, max_size=4),
    load=st.integers(5, 100),
    second_card=st.booleans(),
    onset=st.integers(0, 6),
)
def test_a_process_that_works_on_one_of_its_cards_is_left_alone_whatever_the_driver_answers(
    house: House, plan: list[Fault], load: int, second_card: bool, onset: int
) -> None:
    house.protection((0, load) if second_card else (load, 0))
    house.begin()
    try:
        told = house.patrol("look", ticks=onset)
        for function, card, what in plan:
            house.world.fault(function, card=card, **what)  # type: ignore[arg-type]
        told += house.patrol("look", ticks=14)
    finally:
        house.heal()
        house.patrol("end")
    event("a fault that hangs" if any(what.get("never") for _, _, what in plan) else "a fault that answers")
    assert told == []
    assert house.job.poll() is None


def test_the_same_machine_without_faults_stops_who_idles(house: House) -> None:
    """Else the plans would prove nothing."""
    house.protection((0, 0))
    house.begin()
    told = house.patrol("look", ticks=12)
    steps = (" will be stopped in ", ": stopping ")
    assert [words for words in steps if any(words in line for line in told)] == list(steps)
    assert house.job.wait(LIMIT_S) == -15
    assert os.path.exists(house.environ["FALLOW_STATE_DIR"])
    house.patrol("end")
