"""A job of a cluster that a person stops: asked, ended after the grace, seen to be gone, left where protected."""

import math
import pathlib
from collections.abc import Iterator

import pytest

from fallow.core.errors import FallowError, NothingFound
from fallow.core.findings import Outcome
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.unknown import Unknown
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from fallow.engine.stop.cluster_stop import ClusterStop
from fallow.engine.stop.stop import HowToStop
from tests.engine.cluster.planned import PlannedEngine, job
from tests.engine.driven import DrivenClock

SEVEN = OneClusterJob("slurm:7")


class Stopping:
    """A planned engine, and a stop by hand over it with a real journal and real protections."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.engine = PlannedEngine()
        self.engine.jobs = [job(7), job(8)]
        clock = DrivenClock()
        environ = {"FALLOW_CLAIM_DIR": str(folder / "claims"), "FALLOW_STATE_DIR": str(folder / "state")}
        self.world = World({**environ, "HOME": str(folder)}, clock=clock)
        self.journal = Journal(str(folder / "state"), clock.wall_s, print)
        run = Run(self.world, self.journal, Report(lambda _: None))
        self.stop = ClusterStop(run, self.engine, HowToStop("TERM", 5.0), alone=True)


@pytest.fixture
def stopping(tmp_path: pathlib.Path) -> Iterator[Stopping]:
    made = Stopping(tmp_path)
    yield made
    made.journal.close()
    made.world.close()


def test_a_job_that_ignores_the_question_is_ended_after_the_grace(stopping: Stopping) -> None:
    (seven,) = stopping.stop.meant([SEVEN])
    came = stopping.stop.stop(seven)
    assert came.gone
    assert stopping.engine.done == [("ask", "7"), ("kill", "7")]
    events = stopping.journal.last("slurm:7")[::-1]
    assert [event.kind for event in events] == ["action", "outcome", "action", "outcome", "outcome"]
    assert "stopped by hand by" in events[0].because
    assert stopping.journal.last("slurm:8") == []


def test_what_the_engine_refuses_is_left_and_its_words_are_told(stopping: Stopping) -> None:
    stopping.engine.outcome = Outcome(False, "Access/permission denied")
    came = stopping.stop.stop(stopping.stop.meant([SEVEN])[0])
    assert (came.gone, came.words) == (False, "Access/permission denied")
    assert stopping.engine.done == [("ask", "7")], "what is not asked is not killed"


def test_a_protected_job_is_left_alone_and_nothing_is_done_to_it(stopping: Stopping) -> None:
    stopping.world.protections.place(SEVEN, math.inf, "mine")
    seven = stopping.stop.meant([SEVEN])[0]
    why = stopping.stop.refusal(seven)
    assert why is not None
    assert why.kind == "protected"
    assert not stopping.stop.stop(seven).gone
    assert stopping.engine.done == []
    assert stopping.journal.last("slurm:7")[0].kind == "refusal"


def test_a_controller_that_does_not_answer_is_no_sign_that_a_job_is_gone(stopping: Stopping) -> None:
    seven = stopping.stop.meant([SEVEN])[0]
    stopping.engine.ends = False
    stopping.engine.jobs = Unknown("the controller does not answer")
    assert not stopping.stop.stop(seven).gone
    with pytest.raises(FallowError):
        stopping.stop.meant([SEVEN])


def test_what_is_not_there_is_told(stopping: Stopping) -> None:
    for target in (OneClusterJob("slurm:4711"), ClusterPart("pod", "ml/web")):
        with pytest.raises(NothingFound):
            stopping.stop.meant([target])
