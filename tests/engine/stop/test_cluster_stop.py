"""A job of a cluster that a person stops: asked, ended after the grace, seen to be gone, left where protected."""

import math
import pathlib
from collections.abc import Iterator

import pytest

from fallow.core.cluster import ClusterJob, Engine, PodGpus
from fallow.core.errors import FallowError, NothingFound
from fallow.core.findings import Outcome
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from fallow.engine.stop.cluster_stop import ClusterStop
from fallow.policies.cluster_gate import was_started_again
from tests.engine.cluster.planned import PlannedEngine, job
from tests.harness import ManualClock

SEVEN = OneClusterJob("slurm:7")


class Stopping:
    """A planned engine, and a stop by hand over it with a real journal and real protections."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.engine = PlannedEngine()
        self.engine.jobs = [job(7), job(8)]
        clock = ManualClock()
        environ = {"FALLOW_CLAIM_DIR": str(folder / "claims"), "FALLOW_STATE_DIR": str(folder / "state")}
        self.world = World({**environ, "HOME": str(folder)}, clock=clock)
        self.journal = Journal(str(folder / "state"), clock.wall_s, print)
        run = Run(self.world, self.journal, Report(lambda _: None))
        self.stop = ClusterStop(run, self.engine, 5.0)

    def then(self, word: str, jobs: list[ClusterJob] | Unknown) -> None:
        """Let the engine answer with these jobs once a job was asked, or killed."""

        def change() -> None:
            self.engine.jobs = jobs

        self.engine.after[word] = change


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
    assert [event.finding for event in events[::2]] == ["way of Ask 7", "way of Kill 7", "stopped"]
    assert stopping.journal.last("slurm:8") == []


def test_what_the_engine_refuses_is_left_and_its_words_are_told(stopping: Stopping) -> None:
    stopping.engine.outcome = Outcome(False, "Access/permission denied")
    came = stopping.stop.stop(stopping.stop.meant([SEVEN])[0])
    assert (came.gone, came.words) == (False, "Access/permission denied")
    assert stopping.engine.done == [("ask", "7")], "what is not asked is not killed"


def test_a_controller_that_does_not_answer_is_told_with_what_may_help_here(stopping: Stopping) -> None:
    stopping.engine.jobs = Unknown("Unable to contact slurm controller")
    with pytest.raises(FallowError) as refused:
        stopping.stop.meant([SEVEN])
    assert refused.value.way.startswith("set SLURM_CONF to")


@pytest.mark.as_root
def test_a_protected_job_is_left_alone_and_nothing_is_done_to_it(stopping: Stopping) -> None:
    stopping.world.protections.place(SEVEN, math.inf, "mine")
    assert not stopping.stop.stop(stopping.stop.meant([SEVEN])[0]).gone
    assert stopping.engine.done == []
    assert stopping.journal.last("slurm:7")[0].kind == "refusal"


def test_a_controller_that_stops_answering_during_the_grace_leads_to_no_kill_and_is_told(stopping: Stopping) -> None:
    seven = stopping.stop.meant([SEVEN])[0]
    stopping.then("ask", Unknown("the controller does not answer"))
    came = stopping.stop.stop(seven)
    assert (came.gone, "the controller does not answer" in came.words) == (False, True)
    assert stopping.engine.done == [("ask", "7")]
    assert stopping.journal.last("slurm:7")[0].kind == "refusal"


def test_a_controller_that_stops_answering_after_the_kill_is_no_sign_that_the_job_is_gone(stopping: Stopping) -> None:
    seven = stopping.stop.meant([SEVEN])[0]
    stopping.then("kill", Unknown("the controller does not answer"))
    came = stopping.stop.stop(seven)
    assert (came.gone, "whether it has ended is not known" in came.words) == (False, True)


def test_a_job_that_opts_out_during_the_grace_is_neither_gone_nor_killed(stopping: Stopping) -> None:
    seven = stopping.stop.meant([SEVEN])[0]
    stopping.then("ask", [replace(seven, opt_out=Reason("told", sentence="its people want it"))])
    came = stopping.stop.stop(seven)
    assert (came.gone, came.words) == (False, "its people want it")
    assert stopping.engine.done == [("ask", "7")]


def test_a_job_is_waited_for_as_long_as_its_engine_lets_it_end(stopping: Stopping) -> None:
    """A pod has its own grace, in which Kubernetes does not kill it."""
    pods, clock = replace(stopping.stop.meant([SEVEN])[0], own_grace_s=600.0), stopping.world.clock
    asked_s = clock.monotonic_s()

    def look() -> EngineLook:
        return EngineLook((pods,) if clock.monotonic_s() < asked_s + 500 else (), (), 0)

    stopping.engine.look = look  # type: ignore[method-assign]
    came = stopping.stop.stop(pods)
    assert (came.gone, clock.monotonic_s()) == (True, asked_s + 500)


def test_a_job_that_was_started_again_is_gone_and_its_next_run_is_left_alone(stopping: Stopping) -> None:
    seven = stopping.stop.meant([SEVEN])[0]
    stopping.then("ask", [replace(seven, started_wall_s=1.8e9)])
    assert stopping.stop.stop(seven).gone
    assert stopping.engine.done == [("ask", "7")]


def test_of_pods_one_that_ended_is_not_all_and_other_pods_are_another_run() -> None:
    first, second, third = (PodGpus("ml", "web", 1, uid) for uid in "abc")
    both = replace(job(7), engine=Engine.KUBERNETES, places=(first, second), started_wall_s=2.0)
    assert not was_started_again(both, replace(both, places=(first,), started_wall_s=1.0))
    assert was_started_again(both, replace(both, places=(third,), started_wall_s=3.0))
    assert not was_started_again(job(7), job(7, started_wall_s=Unknown("?")))


def test_what_is_not_there_is_told(stopping: Stopping) -> None:
    for target in (OneClusterJob("slurm:4711"), ClusterPart("pod", "ml/web")):
        with pytest.raises(NothingFound):
            stopping.stop.meant([target])
