"""The idle policy on generated histories: it is patient, it says so first, and in the end it acts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.job import JobActivity, JobFinding
from fallow.core.reasons import Reason
from fallow.core.value import replace
from fallow.policies import idle
from fallow.policies.idle import IdleRules, State, step
from fallow.policies.ladder import Rung
from tests.policies.histories import (
    GUARD_KINDS,
    TICK_S,
    Event,
    History,
    Kind,
    Stretch,
    any_idle_rules,
    first,
    histories,
    idle_rules,
    looks,
    modest,
    run_idle,
    seen_s,
)
from tests.reasons import said

IDLE = JobFinding(JobActivity.IDLE, said("GPU 0: its processes ran 0.0% of the time"))
ENOUGH = 120  # ticks: more than any warm-up, timeout and grace that is drawn


def letters(events: list[Event]) -> str:
    return "".join(type(event.action).__name__[0] for event in events)


def last_busy_s(history: History, until_s: float) -> float:
    return max((look.at_s for look in looks(history) if look.kind is Kind.BUSY and look.at_s <= until_s), default=0.0)


def test_a_job_that_works_and_then_sleeps_is_warned_then_asked_then_killed() -> None:
    rules = IdleRules(timeout_s=10.0, warmup_s=5.0, grace_s=3.0)
    events, _ = run_idle([Stretch(Kind.BUSY, 8), Stretch(Kind.IDLE, 30)], rules)
    assert [(event.at_s, type(event.action)) for event in events] == [(13.0, Warn), (18.0, Ask), (21.0, Kill)]


@pytest.mark.parametrize("warn_before_s", [None, 4.0])
def test_the_stop_that_is_foretold_is_the_stop_that_comes(warn_before_s: float | None) -> None:
    rules = IdleRules(timeout_s=10.0, warmup_s=0.0, warn_before_s=warn_before_s)
    state, foretold = State(at_s=0.0), set()
    for tick in range(1, 20):
        (action, in_s), notice_s = state.ladder.next_action(rules), state.ladder.next_notice_s(rules)
        foretold.add(state.ladder.fault_s + in_s + (notice_s or 0.0))
        decision = step(state, float(tick), IDLE, rules)
        state = decision.state
        if any(isinstance(each, Ask) for each in decision.actions):
            break
    assert action == "ask"
    assert foretold == {state.ladder.fault_s}


def test_a_warning_is_taken_back_when_others_come_who_may_have_hidden_the_job() -> None:
    """People read "stopped in 5s", were told nothing more, and were stopped 25 s later."""
    rules = IdleRules(timeout_s=10.0, warmup_s=0.0)
    beside = replace(IDLE, believed_after_s=30.0)
    state, events = State(at_s=0.0), []
    for tick in range(1, 40):
        decision = step(state, float(tick), IDLE if tick < 8 else beside, rules)
        state = decision.state
        events += [(tick, action) for action in decision.actions]
    assert [(tick, type(action)) for tick, action in events] == [(5, Warn), (8, CancelWarning), (15, Warn), (30, Ask)]
    assert events[1][1].reason == Reason("longer_idle", for_s=30.0, readings=beside.reason)
    assert events[2][1].ask_in_s == 15.0


def test_work_ends_the_doubt_of_what_others_hid() -> None:
    rules = IdleRules(timeout_s=10.0, warmup_s=0.0)
    state = step(State(at_s=0.0), 1.0, replace(IDLE, believed_after_s=900.0), rules).state
    worked = JobFinding(JobActivity.BUSY, said("it worked"), believed_after_s=310.0)  # on one of its GPUs
    state = step(state, 2.0, worked, rules).state
    assert state.patient(rules) == rules


@modest
@given(
    histories(),
    any_idle_rules,
    st.lists(st.sampled_from([0.0, 15.0, 60.0]), min_size=1, max_size=7),
)
def test_nothing_is_done_to_a_job_before_its_idleness_is_believed(
    history: History, rules: IdleRules, doubts: list[float]
) -> None:
    state, longest_s = State(at_s=0.0), 0.0
    for number, look in enumerate(looks(history)):
        doubt_s = doubts[number % len(doubts)] if look.kind is Kind.IDLE else 0.0
        finding = JobFinding(JobActivity(look.kind), said("as drawn"), believed_after_s=doubt_s)
        longest_s = 0.0 if look.kind is Kind.BUSY else max(longest_s, doubt_s)
        decision = step(state, look.at_s, finding, rules)
        state = decision.state
        if any(isinstance(action, Ask) for action in decision.actions):
            assert state.idle_s >= max(rules.timeout_s, longest_s)


def test_each_action_says_why() -> None:
    rules = IdleRules(timeout_s=120.0, warmup_s=0.0, grace_s=5.0, signal="INT")
    events, _ = run_idle([Stretch(Kind.IDLE, 130)], rules)
    warn, ask, kill = (event.action for event in events)
    assert warn == Warn(Reason("idle", for_s=60.0, readings=said("as drawn")), ask_in_s=60.0)
    assert ask == Ask(Reason("idle", for_s=120.0, readings=said("as drawn")), signal="INT", grace_s=5.0)
    assert kill == Kill(Reason("still_there", signal="INT", for_s=5.0))
    sentences = [
        "idle for 1m: as drawn",
        "idle for 2m: as drawn",
        "it was asked with SIGINT 5s ago and is still there",
    ]
    assert [action.because for action in (warn, ask, kill)] == sentences


@pytest.mark.parametrize(("timeout_s", "warned_s"), [(10.0, 5.0), (120.0, 60.0), (1800.0, 1740.0)])
def test_a_warning_comes_a_minute_before_or_at_half_of_a_short_timeout(timeout_s: float, warned_s: float) -> None:
    assert IdleRules(timeout_s).warn_after_s == warned_s


@modest
@given(
    st.lists(st.floats(0.05, 3.0), min_size=60, max_size=60),
    st.floats(0.05, 30.0),
    st.floats(0.0, 5.0),
)
def test_a_warning_always_has_time_however_tiny_the_timeout_and_odd_the_ticks(
    ticks: list[float], timeout_s: float, warmup_s: float
) -> None:
    """F18: between the warning and the asking there is what the warning said, and at least a second of idleness."""
    rules = IdleRules(timeout_s, warmup_s=warmup_s, grace_s=1.0, longest_gap_s=3.0)
    state, at_s, warned_s, left_s = State(at_s=0.0), 0.0, None, 0.0
    for tick_s in ticks:
        at_s += tick_s
        decision = step(state, at_s, IDLE, rules)
        state = decision.state
        for action in decision.actions:
            if isinstance(action, Warn):
                warned_s, left_s = at_s, action.ask_in_s
                assert left_s >= 1.0 - 1e-9
            elif isinstance(action, Ask):
                assert warned_s is not None
                assert at_s - warned_s >= left_s - 1e-6


def test_a_decision_that_was_refused_is_made_again_a_tick_later() -> None:
    rules = IdleRules(timeout_s=4.0, warmup_s=0.0)
    before = run_idle([Stretch(Kind.IDLE, 3)], rules)[1][-1]
    assert step(before, 4.0, IDLE, rules).actions
    after = replace(before, at_s=4.0)
    assert after.ladder.rung is Rung.WARNED
    assert isinstance(step(after, 5.0, IDLE, rules).actions[0], Ask)


@modest
@given(histories(), any_idle_rules)
def test_unknown_never_leads_to_a_warning_or_an_asking(history: History, rules: IdleRules) -> None:
    unknown_at = {look.at_s for look in looks(history) if look.kind is Kind.UNKNOWN}
    events, _ = run_idle(history, rules)
    assert not [event for event in events if event.at_s in unknown_at and not isinstance(event.action, Kill)]


@modest
@given(histories(), idle_rules, st.integers(0, 11), st.sampled_from((Kind.UNKNOWN, Kind.GAP)), st.integers(1, 200))
def test_unknown_time_and_a_gap_count_zero(
    history: History, rules: IdleRules, where: int, kind: Kind, ticks: int
) -> None:
    ending, blind = [Stretch(Kind.IDLE, ENOUGH)], Stretch(kind, ticks)
    blinded = [*history[:where], blind, *history[where:]]
    asked_s = first(run_idle(history + ending, rules)[0], Ask)
    asked_later_s = first(run_idle(blinded + ending, rules)[0], Ask)
    blind_from_s = sum(stretch.seconds for stretch in history[:where])
    assert asked_s is not None
    assert asked_later_s == (asked_s if asked_s <= blind_from_s else asked_s + blind.seconds)


@modest
@given(histories(), any_idle_rules)
def test_nothing_is_done_before_its_witnessed_time(history: History, rules: IdleRules) -> None:
    asked_s: float | None = None
    for event in run_idle(history, rules)[0]:
        idle_s = seen_s(history, Kind.IDLE, event.at_s) - seen_s(history, Kind.IDLE, last_busy_s(history, event.at_s))
        seen_before_s = idle_s + seen_s(history, Kind.IDLE, last_busy_s(history, event.at_s))
        seen_before_s += seen_s(history, Kind.BUSY, event.at_s)
        match event.action:
            case Warn():
                assert idle_s >= rules.warn_after_s
                assert seen_before_s >= rules.warmup_s + rules.warn_after_s
            case Ask():
                assert idle_s >= rules.timeout_s
                assert seen_before_s >= rules.warmup_s + rules.timeout_s
                asked_s = event.at_s
            case Kill():
                assert asked_s is not None
                gaps_s = seen_s(history, Kind.GAP, event.at_s) - seen_s(history, Kind.GAP, asked_s)
                assert event.at_s - asked_s - gaps_s >= rules.grace_s
            case _:
                assert isinstance(event.action, CancelWarning)


@modest
@given(histories(), any_idle_rules)
def test_nobody_is_asked_unwarned_or_killed_unasked(history: History, rules: IdleRules) -> None:
    events, _ = run_idle(history, rules)
    assert re.fullmatch(r"(WC)*(W(AK?)?)?", letters(events))
    assert len({event.at_s for event in events}) == len(events), "one rung a tick"


@modest
@given(histories(), any_idle_rules)
def test_enough_idleness_always_gets_there(history: History, rules: IdleRules) -> None:
    began_s = sum(stretch.seconds for stretch in history)
    events, states = run_idle([*history, Stretch(Kind.IDLE, ENOUGH)], rules)
    asked_s = first(events, Ask)
    assert asked_s is not None
    assert asked_s <= began_s + rules.warmup_s + rules.timeout_s + 2 * TICK_S
    assert states[-1].ladder.rung is Rung.KILLED


@modest
@given(histories(GUARD_KINDS), any_idle_rules)
def test_a_hold_always_wins(history: History, rules: IdleRules) -> None:
    held_at = {look.at_s for look in looks(history) if look.kind is Kind.BLOCKED}
    events, _ = run_idle(history, rules)
    assert all(isinstance(event.action, CancelWarning) for event in events if event.at_s in held_at)
    assert re.fullmatch(r"(WA?C)*(W(AK?)?)?", letters(events))


def test_a_clock_that_goes_back_counts_zero() -> None:
    rules = IdleRules(timeout_s=10.0, warmup_s=0.0)
    after = step(State(at_s=100.0), 50.0, IDLE, rules)
    assert after == idle.Decision(State(at_s=50.0))


@pytest.mark.parametrize(("said_s", "counts_s"), [(None, 100.0), (500.0, 500.0), (5.0, 100.0)])
def test_people_can_make_a_rule_wait_longer_and_never_shorter(said_s: float | None, counts_s: float) -> None:
    assert IdleRules(100.0).allowing(said_s) == IdleRules(counts_s)
