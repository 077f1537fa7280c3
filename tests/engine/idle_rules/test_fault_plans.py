"""Whatever the driver answers, or does not: a process that works is never warned of, asked or killed."""

import pathlib
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.engine.driven import DrivenReader
from tests.harness import Machine
from tests.length import PLANS
from tests.readers.test_fault_plans import CARDS, Fault, fault
from tests.standin import Process, World

GIB = 2**30
JOB = 4711
RULE = """
[[idle]]
name = "forgotten"
act = true
idle_for = "5s"
stuck_for = "5s"
warmup = "2s"
warn_before = "2s"
grace = "1s"
"""


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory, library: pathlib.Path) -> Iterator[World]:
    """Four cards of the stand-in driver, which is that of this process."""
    made = World.create(tmp_path_factory.mktemp("judged") / "world", cards=CARDS)
    yield made
    made.close()


@contextmanager
def on_driver(cards: World, loads: tuple[int, int]) -> Iterator[Machine]:
    """A machine with a rule, whose GPUs are those of the driver, and a process on two of them."""
    for card, load in zip(cards, loads, strict=False):
        card.compute, card.memory_used = [Process(JOB, 2 * GIB)], 2 * GIB
        card.utilization = load
        card.gpm = {2: float(load), 3: load / 10, 5: load / 2, 10: load / 5, 20: 0.0, 21: 0.0}
        card.power_mw = 128_000 + load * 5000
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FALLOW_STANDIN_WORLD", str(cards.path))  # the library reads it
        machine = Machine(pathlib.Path(folder), 0)
        machine.proc.start(JOB)
        machine.world.gpu_reader = DrivenReader(machine.clock, 0.3, machine.proc)
        machine.configure(RULE)
        try:
            yield machine
        finally:
            cards.heal()
            while cards.stuck():
                time.sleep(0.001)
            machine.close()


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
    cards: World, plan: list[Fault], load: int, second_card: bool, onset: int
) -> None:
    with on_driver(cards, (0, load) if second_card else (load, 0)) as machine:
        machine.pass_(seconds=onset)
        for function, card, what in plan:
            cards.fault(function, card=card, **what)  # type: ignore[arg-type]
        machine.pass_(seconds=14)
        assert machine.done == []
        assert not machine.said("will be stopped")
    event("a fault that hangs" if any(what.get("never") for _, _, what in plan) else "a fault that answers")


def test_the_same_machine_without_faults_stops_who_idles(cards: World) -> None:
    """Else the plans would prove nothing."""
    with on_driver(cards, (0, 0)) as machine:
        machine.pass_(
            seconds=60
        )  # where much else runs, a call of the driver takes longer than its 0.3 s now and then
        assert machine.done == [f"SIGTERM to {JOB}"]
        assert machine.said("will be stopped in ")
