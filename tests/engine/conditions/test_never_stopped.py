"""A job that is idle on its GPUs is asked to end only while every condition says no."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.actions import Ask, CancelWarning, Warn
from fallow.core.gpu import Gpu, Holder, Snapshot
from fallow.core.job import GpuKey, Job, JobActivity
from fallow.core.process import Process
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.jobs.job_state import JobRule, JobState, Policy
from fallow.policies.idle import IdleRules
from tests.core.gpus import GIB, held
from tests.length import PLANS

PID = 4711
IN_USE, UNKNOWN = Reason("job_cpu", load=0.9), Unknown("it does not answer")
Found = Reason | Unknown | None
FOUND = st.sampled_from([IN_USE, UNKNOWN, Unknown("looked at only once", asked=False), None, None, None])
STRETCHES = st.lists(st.tuples(st.lists(FOUND, min_size=2, max_size=2), st.integers(1, 25)), max_size=12)


class Scripted:
    """A condition that says what the test says."""

    def __init__(self, text: str, script: list[Found]) -> None:
        self.text = text
        self._script = script

    def __call__(self, job: Job) -> Found:
        return self._script[0]


def card(load: float = 0.0) -> Gpu:
    quiet = held(0)
    recent = replace(quiet.recent, mean=load, peak=load)
    return replace(quiet, holders=(Holder(PID, GIB, utilization=load),), utilization=load, recent=recent)


def snapshot(at_s: float, load: float = 0.0) -> Snapshot:
    return Snapshot("box", simulated=True, at_s=at_s, wall_s=at_s, gpus=(card(load),))


JOB = Job("job", "ada", {Process(PID, 1): "train"}, (GpuKey("box", str(card().uuid)),), frozenset({PID}))


@settings(max_examples=PLANS)
@given(STRETCHES)
def test_no_job_is_asked_while_a_condition_holds_or_cannot_be_told(stretches: list[tuple[list[Found], int]]) -> None:
    now: list[list[Found]] = [[None], [None]]
    rule = JobRule(
        IdleRules(10.0, 5.0, 3.0, warmup_s=0.0),
        begin_conditions=lambda: [Scripted(f"cpu:{number}", script) for number, script in enumerate(now)],
    )
    state, at_s, counted_s = JobState(rule, JOB), 0.0, 0.0
    for answers, ticks in stretches:
        for script, answer in zip(now, answers, strict=True):
            script[0] = answer
        for _ in range(ticks):
            at_s += 1.0
            step = state.propose(Policy.IDLE, snapshot(at_s), None, {})
            assert step is not None
            if IN_USE in answers:
                counted_s = 0.0
                assert all(isinstance(action, CancelWarning) for action in step.actions)
            elif answers != [None, None]:
                assert step.actions == (), "unknown is never idle"
            else:
                counted_s += 1.0
            if any(isinstance(action, Ask) for action in step.actions):
                assert counted_s >= 9.0, "so long it was known that all conditions say no"
                return
            state.take(step)


def test_a_job_whose_conditions_all_say_no_is_warned_and_asked() -> None:
    rule = JobRule(IdleRules(10.0, 5.0, 3.0, warmup_s=0.0), begin_conditions=lambda: [Scripted("cpu:50", [None])])
    state, done = JobState(rule, JOB), []
    for at_s in range(1, 15):
        step = state.propose(Policy.IDLE, snapshot(float(at_s)), None, {})
        assert step is not None
        done += [type(action) for action in step.actions]
        if step.verdict is not None:
            assert ("unless cpu:50", "no") in step.verdict.evidence
        state.take(step)
    assert done == [Warn, Ask]


def test_work_on_the_gpu_begins_the_conditions_anew_and_an_unknown_gpu_does_not() -> None:
    begun: list[int] = []

    def begin() -> list[Scripted]:
        begun.append(1)
        return [Scripted("cpu:50", [None])]

    state = JobState(JobRule(IdleRules(10.0), begin_conditions=begin), JOB)
    for at_s, load in ((1.0, 0.0), (2.0, 0.0), (3.0, 0.9), (4.0, 0.0)):
        state.finding(snapshot(at_s, load))
    assert len(begun) == 2
    blind = replace(snapshot(5.0), gpus=())
    assert state.finding(blind).activity is JobActivity.UNKNOWN
    state.finding(snapshot(6.0))
    assert len(begun) == 2


def test_what_cannot_be_told_is_shown_while_it_lasts_and_a_first_look_is_not() -> None:
    script: list[Found] = [Unknown("looked at only once", asked=False)]
    rule = JobRule(IdleRules(10.0), begin_conditions=lambda: [Scripted("cpu:50", script)])
    state = JobState(rule, JOB)
    state.finding(snapshot(1.0))
    assert state.counting()[0].paused is None
    script[0] = UNKNOWN
    state.finding(snapshot(2.0))
    assert state.counting()[0].paused == "cpu:50 cannot be told: it does not answer"
    script[0] = None
    state.finding(snapshot(3.0))
    assert state.counting()[0].paused is None
