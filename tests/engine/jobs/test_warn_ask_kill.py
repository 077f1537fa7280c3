"""The driver works on any pair of ports: here the jobs of a cluster's scheduler, on another host."""

import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import pytest

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.findings import Outcome
from fallow.core.gpu import Gpu, Holder, Snapshot
from fallow.core.job import GpuKey, Job
from fallow.core.notices import Notice
from fallow.core.process import Process
from fallow.core.protections import AffectedProcess
from fallow.core.reasons import Reason
from fallow.core.value import replace
from fallow.engine.config.rules import Idle, Protect
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.idle_rules.enforcer import RuleEnforcer
from fallow.engine.jobs.before_ask import BeforeAsk, Step
from fallow.engine.jobs.job_state import JobRule, JobState
from fallow.engine.jobs.ports import DryRunJobActions, JobActions, ParkResult
from fallow.engine.jobs.warn_ask_kill import WarnAskKill
from fallow.engine.machine.world import World
from fallow.policies.idle import IdleRules
from tests.conftest import Fallow
from tests.core.gpus import GIB, held
from tests.harness import ManualClock

HOST = "node07"
RULE = {"name": "cluster", "act": True, "idle_for": "20s", "warmup": "0s", "warn_before": "10s", "grace": "5s"}
PID = 4711


def card(load: float) -> Gpu:
    quiet = held(0)
    recent = replace(quiet.recent, mean=load, peak=load)
    return replace(quiet, holders=(Holder(PID, GIB, utilization=load),), utilization=load, recent=recent)


class Scheduler:
    """A source of jobs, and what acts on them by their number: nothing here is a process of this machine."""

    def __init__(self, *, deaf: bool = False, forbidden: Reason | None = None) -> None:
        self.done: list[str] = []
        self.running = True
        self._deaf = deaf
        self._forbidden = forbidden
        self.idle_for_s: float | None = None
        self.command = "train.py"

    def jobs(self, snapshot: Snapshot) -> Sequence[Job]:
        gpu = GpuKey(HOST, str(held(0).uuid))
        members = {Process(PID, 1): self.command}
        job = Job("job 99", "ada", members, (gpu,), frozenset({PID}), idle_for_s=self.idle_for_s)
        return [job] if self.running else []

    def __call__(self, _: Job) -> JobActions:
        return self

    def describe(self) -> tuple[AffectedProcess, ...]:
        return (AffectedProcess(PID, 1, "ada", "train.py"),)

    def find(self, pid: int) -> AffectedProcess | None:
        return AffectedProcess(PID, 1, "ada", "train.py") if pid == PID else None

    def forbidden(self, _: Sequence[AffectedProcess]) -> Reason | None:
        return self._forbidden

    def way(self, action: Ask | Kill) -> str:
        return "cancel the job"

    def warn(self, action: Warn) -> Outcome | None:
        self.done.append(f"warn in {action.ask_in_s:g}")
        return Outcome(True, "mailed")

    def warn_by_signal(self, name: str, pids: Collection[int]) -> Outcome:
        return Outcome(True, f"scancel --signal={name} {len(pids)}")

    def cancel(self, action: CancelWarning) -> None:
        self.done.append(f"cancel: {action.reason.kind}")

    def before_ask(self, wanted: BeforeAsk, variables: Mapping[str, str]) -> Sequence[Step]:
        return []

    def ask(self, action: Ask) -> Outcome:
        self.done.append(f"ask {action.signal}")
        self.running = self._deaf
        return Outcome(True, "scancel")

    def kill(self, action: Kill) -> Outcome:
        self.done.append(f"kill: {action.reason.kind}")
        return Outcome(True, "scancel --signal=KILL")

    def survivors(self) -> str:
        self.done.append("name survivors")
        return "job 99 completes for ever"

    def is_gone(self, job: Job | None) -> str | None:
        return None if job is not None else "the scheduler has ended it"


def idle_rules(*rules: Mapping[str, object]) -> list[Idle]:
    return [Idle.model_validate(rule) for rule in rules]


class Cluster:
    """The enforcer of the idle rules, on the scheduler's jobs, in driven time."""

    def __init__(
        self, folder: pathlib.Path, scheduler: Scheduler, *rules: Mapping[str, object], dry_run: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.world = World(Fallow(folder).environ, clock=self.clock)
        self.journal = Journal(str(folder / "journal"), self.clock.wall_s, lambda _: None)
        self.said: list[str] = []
        self.notices: list[Notice] = []
        run = Run(self.world, self.journal, Report(self.said.append, notify=self.note), dry_run)
        actions = (lambda job: DryRunJobActions(scheduler(job))) if dry_run else scheduler
        self.enforcer = RuleEnforcer(run, scheduler, actions)
        self.enforcer.change(idle_rules(*rules or [RULE]), Protect(), 1.0)

    def note(self, notice: Notice) -> str:
        self.notices.append(notice)
        return ""

    def idle(self, ticks: int, host: str = HOST, load: float = 0.0) -> None:
        for _ in range(ticks):
            self.clock.sleep(1.0)
            at_s, wall_s = self.clock.monotonic_s(), self.clock.wall_s()
            self.enforcer.turn(Snapshot(host, simulated=True, at_s=at_s, wall_s=wall_s, gpus=(card(load),)))

    def close(self) -> None:
        self.journal.close()
        self.world.close()


@pytest.fixture
def clusters(tmp_path: pathlib.Path) -> Iterator[list[Cluster]]:
    made: list[Cluster] = []
    yield made
    for cluster in made:
        cluster.close()


def test_nobody_is_told_that_a_job_goes_on_once_another_rule_has_asked_it_to_end(
    tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    scheduler = Scheduler(deaf=True)
    cluster = Cluster(tmp_path, scheduler, RULE, {**RULE, "name": "second", "idle_for": "25s", "warn_before": "15s"})
    clusters.append(cluster)
    cluster.idle(60)
    done = ["warn in 10", "warn in 15", "ask TERM", "kill: still_there", "name survivors"]
    assert scheduler.done == done
    assert not [line for line in cluster.said if "goes on" in line]


def test_a_longer_time_that_the_people_of_a_job_want_takes_the_warning_back_and_the_idle_time_goes_on(
    tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    scheduler = Scheduler()
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    cluster.idle(15)
    scheduler.idle_for_s = 60.0
    cluster.idle(1)
    assert scheduler.done == ["warn in 10", "cancel: longer_idle"]
    cluster.idle(46)
    assert scheduler.done == ["warn in 10", "cancel: longer_idle", "warn in 10", "ask TERM"]


def test_an_owner_that_is_silent_for_one_answer_changes_neither_the_warning_nor_the_time(
    tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    scheduler = Scheduler()
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    scheduler.idle_for_s = 60.0
    for answered in (30, 23):
        cluster.idle(answered)
        scheduler.idle_for_s = None
        cluster.idle(1)
        scheduler.idle_for_s = 60.0
    assert scheduler.done == ["warn in 10"]
    cluster.idle(6)
    assert scheduler.done == ["warn in 10", "ask TERM"]


OTHER = {**RULE, "name": "another"}


@pytest.mark.parametrize("every_s", [1.0, 2.0])
def test_a_reload_forgets_neither_the_time_nor_the_warning_nor_who_was_asked(
    every_s: float, tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    scheduler = Scheduler(deaf=True)
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    for ticks, done in ((9, []), (4, ["warn in 10"]), (8, ["warn in 10", "ask TERM"])):
        cluster.idle(ticks)
        cluster.enforcer.change(idle_rules(RULE, OTHER), Protect(users=("bob",)), every_s)
        assert scheduler.done == done
        cluster.enforcer.change(idle_rules(RULE), Protect(), every_s)
    cluster.idle(8)
    assert scheduler.done == ["warn in 10", "ask TERM", "kill: still_there"]


@pytest.mark.parametrize(
    "rules",
    [
        (),
        ({**RULE, "name": "another"},),
        ({**RULE, "act": False},),
        ({**RULE, "idle_for": "1h"},),
        ({**RULE, "gpus": "7"},),
        ({**RULE, "stuck_for": "20s", "idle_for": None},),
    ],
)
@pytest.mark.parametrize("ticks", [13, 21])
def test_no_signal_follows_and_the_warning_is_taken_back_when_the_rule_is_gone_or_changed(
    ticks: int, rules: Sequence[Mapping[str, object]], tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    scheduler = Scheduler(deaf=True)
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    cluster.idle(ticks)
    done = list(scheduler.done)
    cluster.enforcer.change(idle_rules(*rules), Protect(), 1.0)
    cluster.idle(7)
    assert scheduler.done == [*done, "cancel: config_changed"]


@pytest.mark.parametrize(
    ("command", "why"), [("train.py", "'nothing'"), ("other.py", "1 were ended in the last 10m, and 1 may be")]
)
def test_a_reload_forgets_neither_how_many_were_stopped_nor_what_came_back(
    command: str, why: str, tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    scheduler, protect = Scheduler(), Protect(at_most=1)
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    cluster.enforcer.change(idle_rules(RULE), protect, 1.0)
    cluster.idle(23)
    scheduler.command, scheduler.running = command, True
    cluster.enforcer.change(idle_rules(OTHER), protect, 1.0)
    cluster.idle(90)
    assert scheduler.done.count("ask TERM") == 1
    (counting,) = cluster.enforcer.counting
    assert why in (repr(counting.action), counting.refused)


def test_at_the_end_of_the_daemon_warnings_are_taken_back_and_nothing_is_said_of_who_was_asked(
    tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    for ticks, done in ((13, ["warn in 10", "cancel: fallow_ends"]), (21, ["warn in 10", "ask TERM"])):
        (tmp_path / str(ticks)).mkdir()
        scheduler = Scheduler(deaf=True)
        cluster = Cluster(tmp_path / str(ticks), scheduler)
        clusters.append(cluster)
        cluster.idle(ticks)
        cluster.enforcer.end()
        assert scheduler.done == done


def test_readings_of_another_host_say_nothing_about_the_job(tmp_path: pathlib.Path, clusters: list[Cluster]) -> None:
    scheduler = Scheduler()
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    cluster.idle(100, host="node08")
    assert scheduler.done == []


def test_every_notice_about_a_job_names_the_person_whose_job_it_is(
    tmp_path: pathlib.Path, clusters: list[Cluster]
) -> None:
    scheduler = Scheduler()
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    cluster.idle(15)
    cluster.idle(1, load=0.9)
    cluster.idle(25)
    scheduler.running = True
    cluster.idle(2)
    assert [notice.event for notice in cluster.notices] == ["warned", "goes_on", "warned", "stopped", "stopped"]
    assert {notice.person for notice in cluster.notices} == {"ada"}
    assert "came back after it was stopped" in cluster.notices[-1].text
    assert cluster.notices[0].advice == f"To keep it: fallow protect pid:{PID} --for 2h"


def test_what_is_forbidden_is_kept_once_with_its_kind(tmp_path: pathlib.Path, clusters: list[Cluster]) -> None:
    scheduler = Scheduler(forbidden=Reason("needs_root", pid=PID, user="ada"))
    cluster = Cluster(tmp_path, scheduler)
    clusters.append(cluster)
    cluster.idle(100)
    assert scheduler.done == []
    assert [(event.kind, event.reason) for event in cluster.journal.last(None)] == [("refusal", "needs_root")]


class Parked:
    """Parks a job as soon as it is asked to, or cannot."""

    def __init__(self, result: ParkResult) -> None:
        self._result: ParkResult | None = result
        self.begun = 0
        self.is_busy = False

    def why_not(self, job: Job, processes: Sequence[AffectedProcess]) -> str | None:
        return None

    def begin(self, job: Job, processes: Sequence[AffectedProcess]) -> None:
        self.begun += 1
        self.is_busy = True

    def is_under_way(self, job: Job) -> bool:
        return self.is_busy

    def result(self, job: Job) -> ParkResult | None:
        result, self._result = self._result, None
        return result


@pytest.mark.parametrize("parked", [True, False])
def test_a_process_that_joins_the_job_while_it_is_parked_is_judged_from_the_beginning(
    parked: bool, tmp_path: pathlib.Path
) -> None:
    """It was neither parked nor stopped as long as it idled, or was stopped without a warning."""
    scheduler, clock = Scheduler(deaf=True), ManualClock()
    world = World(Fallow(tmp_path).environ, clock=clock)
    run = Run(world, Journal(str(tmp_path / "journal"), clock.wall_s, lambda _: None), Report(lambda _: None), False)
    parker = Parked(ParkResult(parked, "as drawn"))
    driver = WarnAskKill(run, lambda _: scheduler, parker=parker)
    (job,) = scheduler.jobs(Snapshot(HOST, simulated=True, at_s=0.0, wall_s=0.0, gpus=()))
    rule = JobRule(IdleRules(20.0, grace_s=5.0, warn_before_s=10.0, warmup_s=0.0), name="parks", parks=True)
    state = JobState(rule, job, clock.monotonic_s())

    def idle(ticks: int) -> None:
        for _ in range(ticks):
            clock.sleep(1.0)
            at_s, wall_s = clock.monotonic_s(), clock.wall_s()
            state.follow(job)
            driver.look(state, Snapshot(HOST, simulated=True, at_s=at_s, wall_s=wall_s, gpus=(card(0.0),)), ())

    idle(20)
    assert parker.begun == 1
    job = replace(job, members={**job.members, Process(PID + 1, 2): "train.py"})
    idle(3)
    parker.is_busy = False
    idle(11)
    assert scheduler.done == ["warn in 10"]
    idle(10)
    assert scheduler.done == ["warn in 10", "warn in 10"]
    idle(3)
    assert parker.begun == 2
    world.close()


def test_a_dry_run_reaches_nothing(tmp_path: pathlib.Path, clusters: list[Cluster]) -> None:
    scheduler = Scheduler(deaf=True)
    cluster = Cluster(tmp_path, scheduler, dry_run=True)
    clusters.append(cluster)
    cluster.idle(60)
    assert scheduler.done == []
    assert [" would " in f" {line}" for line in cluster.said] == [True] * 3
    assert "it would have been asked with SIGTERM" in cluster.said[-1]
    rows = [event for event in cluster.journal.last(None) if event.kind in ("action", "outcome")]
    assert rows
    assert all(row.finding.startswith("dry run: ") for row in rows), "why must not say that it was asked or killed"
