"""Whatever an engine and the metrics answer, no job is asked or ended that worked, was not read, or is protected."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import ClusterJob, GpuReading, Readings
from fallow.core.errors import FallowError
from fallow.core.findings import Outcome
from fallow.core.protections import ClusterPart, Everything, OneClusterJob, Protection
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.loop import ClusterLoop
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from fallow.policies.arbiter import ProtectRules
from tests.engine.cluster.planned import EVERY_S, PlannedEngine, PlannedEyes, job, reading, rule
from tests.harness import ManualClock
from tests.length import MORE, PLANS

IDLE_S, NOTICE_S, GRACE_S = 600.0, 300.0, 60.0
JOBS = ("7", "8", "9")
QUIET = ("all is quiet",)
FAULTS = (
    "works",
    "a reading is missing",
    "a reading is stale",
    "a reading makes no sense",
    "the metrics are silent",
    "the metrics break",
    "the engine is silent",
    "the engine breaks",
    "the nodes are silent",
    "is protected",
    "opted out",
    "is not listed",
    "starts again",
    "has more GPUs",
    "time jumps",
    "the metrics cover little",
    "is silent when asked again",
    "is another when asked again",
    "actions fail",
    "actions break",
)
segment = st.tuples(st.sampled_from(QUIET * 12 + FAULTS), st.integers(1, 24), st.sampled_from(JOBS))
plans = st.lists(segment, min_size=3, max_size=9)


class Truth:
    """What is true of one job, kept by the test alone."""

    def __init__(self) -> None:
        self.idle_s = 0.0
        self.readable = False
        self.left_alone = False
        self.warned_at_s: float | None = None
        self.asked_at_s: float | None = None
        self.good_since_ask_s = 0.0


class FaultyEngine(PlannedEngine):
    """Answers as the plan has it, and checks each action against what is true."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self.truth = {number: Truth() for number in JOBS}
        self.fault, self.meant = "", ""
        self.answers = True
        self.asked_again = False
        self.stops = 0
        self.wrong: list[str] = []
        """What was done wrongly: the loop survives an engine that raises."""

    def look(self) -> EngineLook:
        again, self.asked_again = self.asked_again, True
        if self.fault == "the engine breaks":
            raise RuntimeError("it broke")
        if again and self.fault == "is silent when asked again":
            return EngineLook(Unknown("no answer"), Unknown("no answer"), Unknown("no answer"))
        found = super().look()
        if again and self.fault == "is another when asked again" and not isinstance(found.jobs, Unknown):
            others = tuple(
                replace(each, started_wall_s=5.0) if each.id == self.meant else each for each in found.jobs
            )
            return replace(found, jobs=others)
        return found

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:
        self._demand_idle(job, IDLE_S - NOTICE_S)
        outcome = self._tried(super().warn(job, action))
        if outcome.ok:
            self.truth[job.id].warned_at_s = self.clock.now_s
        return outcome

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:
        self.truth[job.id].warned_at_s = self.truth[job.id].asked_at_s = None
        return self._tried(super().cancel(job, action))

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        self._demand_idle(job, IDLE_S)
        truth = self.truth[job.id]
        self._demand(truth.warned_at_s is not None, "asked without a warning")
        self._demand(self.clock.now_s - (truth.warned_at_s or 0.0) >= NOTICE_S, "asked before the notice was over")
        outcome = self._tried(super().ask(job, action))
        if outcome.ok:
            truth.asked_at_s, truth.good_since_ask_s = self.clock.now_s, 0.0
            self.stops += 1
        return outcome

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:
        self._demand_idle(job, IDLE_S)
        truth = self.truth[job.id]
        self._demand(truth.asked_at_s is not None, "ended without being asked")
        self._demand(truth.good_since_ask_s >= GRACE_S, "ended before its grace was over")
        if self.fault in ("actions fail", "actions break"):
            return self._tried(Outcome(False, "refused"))
        return super().kill(job, action)

    def _demand_idle(self, job: ClusterJob, for_s: float) -> None:
        truth = self.truth[job.id]
        self._demand(self.answers, "acted on in a look in which something did not answer")
        self._demand(truth.readable, f"acted on although {self.fault}")
        self._demand(not truth.left_alone, f"acted on although {self.fault}")
        self._demand(truth.idle_s >= for_s, f"acted on after {truth.idle_s:.0f} s")
        self._demand(self.fault != "is silent when asked again", "acted on though the engine was not asked again")
        another = self.fault == "is another when asked again" and job.id == self.meant
        self._demand(not another, "acted on though it is another job")

    def _demand(self, held: bool, what: str) -> None:
        if not held:
            self.wrong.append(what)

    def _tried(self, outcome: Outcome) -> Outcome:
        if self.fault == "actions break":
            raise OSError("the connection was reset")
        return Outcome(False, "refused") if self.fault == "actions fail" else outcome


class FaultyEyes(PlannedEyes):
    """Reads as the plan has it."""

    breaks = False

    def read(self) -> Readings:
        if self.breaks:
            raise KeyError("gpu")
        return super().read()


class Plan:
    """Three jobs of two GPUs each, the loop over them, and what is true of them."""

    def __init__(self, journal: Journal) -> None:
        self.clock = ManualClock()
        self.engine = FaultyEngine(self.clock)
        self.eyes = FaultyEyes(self.clock)
        self.protections: list[Protection] = []
        self.jobs = {number: job(int(number), node=f"n{number}") for number in JOBS}
        run = Run(World({}, clock=self.clock), journal, Report(lambda _: None))
        self.loop = ClusterLoop(
            run, self.engine, self.eyes, (rule(),), ProtectRules(), lambda: self.protections, EVERY_S
        )

    def run(self, fault: str, meant: str) -> None:
        """Look once while this is so."""
        engine, eyes, clock = self.engine, self.eyes, self.clock
        begins_again = fault == "starts again"
        if fault == "starts again":
            self.jobs[meant] = replace(self.jobs[meant], started_wall_s=clock.wall_s())
        if fault == "has more GPUs":
            several = min(4, len(self.jobs[meant].places) + 1)
            begins_again = several > len(self.jobs[meant].places)
            self.jobs[meant] = replace(self.jobs[meant], places=job(int(meant), several, f"n{meant}").places)
        clock.now_s += 5000.0 if fault == "time jumps" else EVERY_S
        listed = [
            replace(each, opt_out=Reason("told", sentence="no"))
            if fault == "opted out" and each.id == meant
            else each
            for each in self.jobs.values()
            if not (fault == "is not listed" and each.id == meant)
        ]
        silent = Unknown("no answer")
        engine.fault, engine.meant, engine.asked_again = fault, meant, False
        engine.jobs = silent if fault == "the engine is silent" else listed
        engine.nodes = silent if fault == "the nodes are silent" else ()
        eyes.trouble = silent if fault == "the metrics are silent" else None
        eyes.breaks = fault == "the metrics break"
        eyes.covers_s = 10.0 if fault == "the metrics cover little" else 45.0
        eyes.gpus = list(self._readings(fault, meant))
        target = [Everything(), OneClusterJob(f"slurm:{meant}"), ClusterPart("node", f"n{meant}")][
            int(clock.now_s) % 3
        ]
        self.protections = [Protection(1, target, 4e9, "", "ada")] if fault == "is protected" else []
        engine.answers = fault not in FAULTS[4:9]
        for number, truth in engine.truth.items():
            mine = number == meant
            truth.readable = not (mine and fault in FAULTS[1:4])
            covered = isinstance(self.protections[0].target, Everything) if self.protections else False
            truth.left_alone = (mine and fault in ("is protected", "opted out")) or covered
            reset = mine and (fault in ("works", "opted out", "is protected", "is not listed") or begins_again)
            counts = engine.answers and truth.readable and fault not in ("time jumps", "the metrics cover little")
            if reset or covered:
                truth.idle_s = 0.0
            elif counts:
                truth.idle_s += EVERY_S
                truth.good_since_ask_s += EVERY_S
        self.loop.look()
        self.loop.turn()

    def _readings(self, fault: str, meant: str) -> Iterator[GpuReading]:
        for number in JOBS:
            for index in range(4):
                hit = number == meant and index == 0
                load: float | Unknown = 0.0
                if hit and fault == "a reading is missing":
                    continue
                if hit and fault == "a reading is stale":
                    load = Unknown("its series has ended")
                if hit and fault == "a reading makes no sense":
                    load = float("nan")
                if number == meant and index == 1 and fault == "works":
                    load = 0.02
                yield reading(index, load, node=f"n{number}")


@pytest.fixture(scope="module")
def journal() -> Journal:
    """A journal without a place: what is written is tested elsewhere, and the disk is slow."""
    return Journal(FallowError("there is no place for it"), lambda: 1.7e9, lambda _: None)


@settings(max_examples=PLANS if MORE else 25, deadline=None)
@given(plan=plans)
def test_nothing_is_stopped_wrongly(journal: Journal, plan: list[tuple[str, int, str]]) -> None:
    made = Plan(journal)
    for fault, times, meant in plan:
        once = fault in ("starts again", "has more GPUs", "time jumps")
        for _ in range(1 if once else times):
            made.run(fault, meant)
            assert made.engine.wrong == []


def test_plans_without_faults_stop_the_jobs_that_are_idle(journal: Journal) -> None:
    made = Plan(journal)
    for _ in range(60):
        made.run("all is quiet", "7")
    assert made.engine.wrong == []
    assert made.engine.stops == len(JOBS)
    assert [word for word, _ in made.engine.done] == ["warn"] * 3 + ["ask"] * 3 + ["kill"] * 3
