"""A job that works is never stopped, whatever the driver answers; one that idles is, when its time has come."""

import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from fallow.core.ports import Depth
from fallow.core.process import Ended
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.foreground import ForegroundJobSource
from fallow.engine.jobs.job_state import JobRule
from fallow.engine.jobs.supervisor import Supervisor
from fallow.engine.jobs.usage import UsageMeter
from fallow.policies.idle import IdleRules
from fallow.policies.stuck import StuckRules
from tests.conftest import Fallow
from tests.engine.driven import DrivenJob, RecordingActions, driven_world
from tests.harness import ManualClock
from tests.length import PLANS
from tests.readers.test_fault_plans import Fault, fault
from tests.standin import Process, World

GIB = 2**30
GAP_S = 3.0


class Came(NamedTuple):
    """When the job was asked to end, in seconds after its start, and what was told."""

    asked_at_s: list[float]
    told: list[str]


class JobWithAChange(DrivenJob):
    """A job that lets something happen at a moment of its time."""

    def __init__(self, clock: ManualClock, seconds: float, change: Callable[[], None], after_s: float) -> None:
        super().__init__(clock, seconds)
        self._change_at_s = clock.now_s + after_s
        self._driven, self._change = clock, change

    def wait_for_job(self, timeout_s: float) -> Ended | None:
        ended = super().wait_for_job(timeout_s)
        if self._driven.now_s >= self._change_at_s:
            self._change()
            self._change_at_s = float("inf")
        return ended


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory, library: pathlib.Path) -> Iterator[World]:
    """Four cards of the stand-in driver, which is that of this process."""
    made = World.create(tmp_path_factory.mktemp("supervised") / "world", cards=4)
    yield made
    made.heal()
    made.close()


@pytest.fixture
def environ(
    cards: World, library: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    variables = {**Fallow(tmp_path).environ, **cards.environ(library)}
    monkeypatch.setenv("FALLOW_STANDIN_WORLD", variables["FALLOW_STANDIN_WORLD"])  # the library reads it
    return variables


def supervise(
    environ: dict[str, str],
    seconds: float,
    stuck_s: float | None = None,
    change: Callable[[], None] = lambda: None,
    after_s: float = 0.0,
) -> Came:
    """Supervise a job on card 0 in driven time, from its start to its end."""
    world, clock = driven_world(environ, 0.3)
    began_s, told = clock.now_s, list[str]()
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(folder, clock.wall_s, told.append)
        job = JobWithAChange(clock, seconds, change, after_s)
        actions = RecordingActions(world, clock, job)
        stuck = None if stuck_s is None else StuckRules(stuck_s, acts=True, longest_gap_s=GAP_S)
        rule = JobRule(IdleRules(5.0, warmup_s=2.0, longest_gap_s=GAP_S), stuck)
        gpus = tuple(gpu for gpu in world.gpu_reader.look(Depth.HOLDERS).gpus if gpu.index == 0)
        source = ForegroundJobSource(world, job, gpus, "job")  # type: ignore[arg-type]
        meter = UsageMeter([str(gpu.uuid) for gpu in gpus], rule.idle_below, GAP_S)
        run = Run(world, journal, Report(told.append))
        Supervisor(run, job, source, lambda _: actions, rule, meter).run()  # type: ignore[arg-type]
        journal.close()
    world.close()
    return Came([at_s - began_s for at_s in actions.asked], told)


def hold(world: World, load: int = 0) -> None:
    """Let the job, which is this process, hold card 0 with this load."""
    card = world[0]
    card.compute, card.memory_used = [Process(os.getpid(), 2 * GIB)], 2 * GIB
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
    cards: World, environ: dict[str, str], plan: list[Fault], load: int, onset: int
) -> None:
    hold(cards, load)

    def break_things() -> None:
        for function, card, what in plan:
            cards.fault(function, card=min(card, 0), **what)  # type: ignore[arg-type]

    try:
        came = supervise(environ, 16.0, 5.0, break_things, onset)
    finally:
        let_threads_out(cards)
    event("a fault that hangs" if any(what.get("never") for _, _, what in plan) else "a fault that answers")
    assert came.asked_at_s == [], came.told


def test_a_job_that_idles_is_asked_after_warm_up_and_timeout(cards: World, environ: dict[str, str]) -> None:
    hold(cards)
    (asked_at_s,), told = supervise(environ, 60.0)
    assert 7.0 <= asked_at_s <= 9.0
    assert "will be stopped" in told[0], "warned before asked"
