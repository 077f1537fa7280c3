"""The idle policy with `when = "wanted"`, over generated arrivals and departures in the queue for the job's GPUs."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.job import JobActivity, JobFinding
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies.idle import IdleRules, State, When, step
from fallow.policies.ladder import Rung
from tests.policies.histories import (
    LONGEST_GAP_S,
    PROTECTED,
    Event,
    Kind,
    any_idle_rules,
    first,
    modest,
    reach,
)
from tests.reasons import said

SOMEBODY = Reason("awaited", user="ada", gpu="0", program="train.py", pid=1)
CANNOT_TELL = Unknown("the queue cannot be read")
ENOUGH = 120  # ticks: more than any warm-up, notice, timeout and grace that is drawn
RULES = IdleRules(timeout_s=20.0, warmup_s=0.0, grace_s=5.0, warn_before_s=10.0, when=When.WANTED)


class Queue(StrEnum):
    """What the queue for the job's GPUs is like."""

    EMPTY = "empty"
    SOMEBODY = "somebody"
    UNREAD = "unread"


WAITS = {Queue.EMPTY: None, Queue.SOMEBODY: SOMEBODY, Queue.UNREAD: CANNOT_TELL}


class Stretch(NamedTuple):
    """Some ticks in which the job does one thing, and the queue is one way."""

    kind: Kind
    queue: Queue
    ticks: int


class Look(NamedTuple):
    """One tick: what it showed, and what it led to."""

    at_s: float
    passed_s: float
    kind: Kind
    queue: Queue
    before: State
    after: State
    events: tuple[Event, ...]


History = list[Stretch]
KINDS = (Kind.IDLE, Kind.IDLE, Kind.IDLE, Kind.BUSY, Kind.UNKNOWN, Kind.GAP, Kind.BLOCKED)
stretches = st.builds(Stretch, st.sampled_from(KINDS), st.sampled_from(Queue), st.integers(1, 4) | st.integers(5, 40))
histories = st.lists(stretches, max_size=14)
without_launches = st.lists(stretches.filter(lambda each: each.queue is not Queue.SOMEBODY), max_size=14)
rules_when_wanted = any_idle_rules.map(lambda rules: replace(rules, when=When.WANTED))


def run(history: History, rules: IdleRules) -> Iterator[Look]:
    """All ticks of a history."""
    state, at_s = State(at_s=0.0), 0.0
    for stretch in history:
        for _ in range(1 if stretch.kind is Kind.GAP else stretch.ticks):
            passed_s = LONGEST_GAP_S + stretch.ticks if stretch.kind is Kind.GAP else 1.0
            at_s += passed_s
            idles = stretch.kind in (Kind.BLOCKED, Kind.GAP)
            activity = JobActivity.IDLE if idles else JobActivity(stretch.kind)
            alone = PROTECTED if stretch.kind is Kind.BLOCKED else None
            finding = JobFinding(activity, said("as drawn"))
            decision = step(state, at_s, finding, rules, alone, WAITS[stretch.queue])
            events = tuple(Event(at_s, action) for action in decision.actions)
            yield Look(at_s, passed_s, stretch.kind, stretch.queue, state, decision.state, events)
            state = decision.state


def events_of(history: History, rules: IdleRules) -> list[Event]:
    return [event for look in run(history, rules) for event in look.events]


@modest
@given(without_launches, rules_when_wanted)
def test_with_nobody_in_line_nothing_is_ever_warned_or_asked_to_end(history: History, rules: IdleRules) -> None:
    endless = [*history, Stretch(Kind.IDLE, Queue.EMPTY, ENOUGH), Stretch(Kind.IDLE, Queue.UNREAD, ENOUGH)]
    assert events_of(endless, rules) == []


@modest
@given(histories, rules_when_wanted)
def test_every_asking_follows_a_full_notice_in_which_somebody_waited_at_each_step(
    history: History, rules: IdleRules
) -> None:
    noticed_s: float | None = None
    for look in run(history, rules):
        counts = look.kind is Kind.IDLE and look.queue is Queue.SOMEBODY
        if noticed_s is not None:
            noticed_s += look.passed_s if counts else 0.0
        for _, action in look.events:
            if isinstance(action, Warn):
                assert counts
                assert action.ask_in_s >= rules.notice_s
                noticed_s = 0.0
            elif isinstance(action, Ask):
                assert counts
                assert noticed_s is not None
                assert noticed_s >= rules.notice_s
                assert look.after.idle_s >= rules.timeout_s
            elif isinstance(action, CancelWarning):
                noticed_s = None


@modest
@given(histories, rules_when_wanted)
def test_when_the_line_empties_before_the_asking_the_warning_is_cancelled_and_idle_time_goes_on(
    history: History, rules: IdleRules
) -> None:
    for look in run(history, rules):
        if look.queue is not Queue.EMPTY or look.before.ladder.rung is not Rung.WARNED:
            continue
        assert [type(event.action) for event in look.events] == [CancelWarning]
        assert look.after.ladder.rung is Rung.CALM
        if look.kind in (Kind.IDLE, Kind.UNKNOWN, Kind.GAP):
            assert look.events[0].action == CancelWarning(Reason("nobody_waits"))
            assert look.after.idle_s == look.before.idle_s + (look.passed_s if look.kind is Kind.IDLE else 0.0)


@modest
@given(histories, rules_when_wanted)
def test_a_queue_that_cannot_be_read_begins_nothing_ends_nothing_and_brings_no_end_closer(
    history: History, rules: IdleRules
) -> None:
    for look in run(history, rules):
        if look.queue is not Queue.UNREAD or look.kind is not Kind.IDLE:
            continue
        before, after = look.before.ladder, look.after.ladder
        if before.rung is Rung.ASKED:
            continue
        assert look.events == ()
        assert after.rung is before.rung
        if before.rung is Rung.WARNED:
            assert after.next_action(rules) == before.next_action(rules)


@modest
@given(histories, rules_when_wanted)
def test_nothing_is_taken_back_by_an_empty_line_once_a_job_was_asked(history: History, rules: IdleRules) -> None:
    asked = [*history, Stretch(Kind.IDLE, Queue.SOMEBODY, ENOUGH), Stretch(Kind.IDLE, Queue.EMPTY, ENOUGH)]
    looks = list(run(asked, rules))
    assert looks[-1].after.ladder.rung is Rung.KILLED
    for look in looks:
        if look.before.ladder.rung is Rung.ASKED and look.kind is not Kind.BLOCKED:
            assert not any(isinstance(event.action, CancelWarning) for event in look.events)


@modest
@given(histories, any_idle_rules)
def test_a_rule_for_always_does_not_look_at_the_line(history: History, rules: IdleRules) -> None:
    empty = [stretch._replace(queue=Queue.EMPTY) for stretch in history]
    unread = [stretch._replace(queue=Queue.UNREAD) for stretch in history]
    assert events_of(empty, rules) == events_of(unread, rules)


@pytest.mark.parametrize("kind", [Warn, Ask, Kill, CancelWarning])
def test_the_histories_here_reach_every_step(kind: type[Warn | Ask | Kill | CancelWarning]) -> None:
    reach(histories, lambda history: first(events_of(history, RULES), kind) is not None)


def test_a_launch_that_comes_late_gives_the_full_notice_and_is_named() -> None:
    late = [Stretch(Kind.IDLE, Queue.EMPTY, 100), Stretch(Kind.IDLE, Queue.SOMEBODY, 20)]
    warn, ask, kill = events_of(late, RULES)
    assert (warn.at_s, ask.at_s, kill.at_s) == (101.0, 111.0, 116.0)
    assert isinstance(warn.action, Warn)
    assert warn.action.ask_in_s == 10.0
    assert warn.action.because == "idle for 1m41s: as drawn, and ada waits for GPU 0 with train.py (pid 1)"
