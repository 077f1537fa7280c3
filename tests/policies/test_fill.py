"""The fill policy on generated histories, with a filler that starts, works, dies and leaves as it likes."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.fillers import FillAction, FillVerb, Presence, Yield
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.policies.fill import FillDecision, FillLook, FillRules, FillState, Phase, step
from tests.policies.histories import (
    LONGEST_GAP_S,
    TICK_S,
    History,
    Kind,
    Stretch,
    histories,
    looks,
    modest,
    quarters,
    reach,
)

KINDS = (Kind.BUSY, Kind.IDLE, Kind.UNKNOWN, Kind.GAP)
SOMEBODY = Reason("occupied", process="pid 7 of ada", pid=7, gpu="0")
AGAINST: dict[Kind, Reason | Unknown | None] = {
    Kind.BUSY: SOMEBODY,
    Kind.IDLE: None,
    Kind.UNKNOWN: Unknown("as drawn"),
}


class Character(NamedTuple):
    """What a filler is like: how long it lives by itself, and how long it takes to leave."""

    lives_s: float
    leaves_in_s: float
    suspends_in_s: float | None


class Act(NamedTuple):
    """One look, and what was decided."""

    at_s: float
    kind: Kind
    presence: Presence
    decision: FillDecision


rules = st.builds(
    FillRules,
    idle_for_s=quarters(0, 12),
    manner=st.sampled_from(Yield),
    grace_s=quarters(0, 5),
    suspend_within_s=quarters(1, 5),
    longest_gap_s=st.just(LONGEST_GAP_S),
    blind_for_s=quarters(1, 8),
    lasted_s=quarters(5, 30),
    first_pause_s=quarters(1, 3),
    longest_pause_s=st.just(16.0),
)
characters = st.builds(
    Character,
    lives_s=st.sampled_from([0.0, 2.0, 50.0, 10_000.0]),
    leaves_in_s=st.sampled_from([0.0, 1.0, 10_000.0]),
    suspends_in_s=st.sampled_from([None, 0.0, 2.0]),
)


class Filler:
    """A filler of some character, in the hands of the policy."""

    def __init__(self, character: Character) -> None:
        self.character = character
        self.presence = Presence.ABSENT
        self.ended: str | None = None
        self._ends_s = 0.0
        self._suspends_s: float | None = None

    def pass_time(self, at_s: float) -> None:
        if self.presence is not Presence.RUNNING:
            return
        if self._suspends_s is not None and at_s >= self._suspends_s:
            self.presence, self._suspends_s = Presence.SUSPENDED, None
        elif at_s >= self._ends_s:
            self.presence, self.ended = Presence.ABSENT, "ended with exit code 3"

    def do(self, action: FillAction, at_s: float) -> None:
        match action.verb:
            case FillVerb.START | FillVerb.RESUME:
                assert self.presence is (Presence.ABSENT if action.verb is FillVerb.START else Presence.SUSPENDED)
                self.presence, self.ended = Presence.RUNNING, None
                self._ends_s = at_s + self.character.lives_s
            case FillVerb.ASK:
                self._ends_s = min(self._ends_s, at_s + self.character.leaves_in_s)
            case FillVerb.SUSPEND:
                if self.character.suspends_in_s is None:
                    self._ends_s = at_s
                else:
                    self._suspends_s = at_s + self.character.suspends_in_s
            case FillVerb.KILL:
                self._ends_s = at_s


def run(history: History, given_rules: FillRules, character: Character, every_s: float = TICK_S) -> list[Act]:
    state, filler, acts = FillState(), Filler(character), []
    for look in looks(history, every_s):
        filler.pass_time(look.at_s)
        presence = filler.presence
        decision = step(state, FillLook(look.at_s, AGAINST[look.kind], presence, filler.ended), given_rules)
        state = decision.state
        for action in decision.actions:
            filler.do(action, look.at_s)
        acts.append(Act(look.at_s, look.kind, presence, decision))
    return acts


FAITHFUL = Character(10_000.0, 0.0, 0.0)
SIMPLE = FillRules(idle_for_s=3.0, grace_s=2.0)


def phases(acts: list[Act]) -> list[Phase]:
    found: list[Phase] = []
    for act in acts:
        if not found or found[-1] is not act.decision.state.phase:
            found.append(act.decision.state.phase)
    return found


def test_a_quiet_card_is_filled_given_back_and_filled_again() -> None:
    acts = run([Stretch(Kind.IDLE, 6), Stretch(Kind.BUSY, 2), Stretch(Kind.IDLE, 6)], SIMPLE, FAITHFUL)
    assert phases(acts) == [Phase.QUIET, Phase.FILLED, Phase.YIELDING, Phase.QUIET, Phase.FILLED]
    assert [(act.at_s, act.decision.actions[0].verb) for act in acts if act.decision.actions] == [
        (4.0, FillVerb.START),
        (7.0, FillVerb.ASK),
        (12.0, FillVerb.START),
    ]


def test_whoever_does_not_leave_within_the_grace_is_killed_once() -> None:
    stubborn = Character(10_000.0, 10_000.0, None)
    acts = run([Stretch(Kind.IDLE, 5), Stretch(Kind.BUSY, 6)], SIMPLE, stubborn)
    assert [
        (act.at_s, action) for act in acts for action in act.decision.actions if action.verb is not FillVerb.START
    ] == [
        (6.0, FillAction(FillVerb.ASK, SOMEBODY)),
        (8.0, FillAction(FillVerb.KILL, Reason("too_slow", after_s=2.0))),
    ]


def test_a_filler_that_dies_at_once_is_started_with_growing_pauses() -> None:
    acts = run([Stretch(Kind.IDLE, 100)], FillRules(idle_for_s=0.0, first_pause_s=2.0), Character(0.0, 0.0, None))
    starts = [act.at_s for act in acts for action in act.decision.actions if action.verb is FillVerb.START]
    assert [later - sooner for sooner, later in pairwise(starts)] == [3.0, 5.0, 9.0, 17.0, 33.0]


def test_a_filler_that_lasted_is_forgiven() -> None:
    some = FillRules(idle_for_s=0.0, lasted_s=10.0, first_pause_s=2.0)
    acts = run([Stretch(Kind.IDLE, 100)], some, Character(20.0, 0.0, None))
    assert {act.decision.state.failures for act in acts} == {0, 1}


def test_a_suspended_filler_is_resumed_and_not_started_anew() -> None:
    suspending = FillRules(idle_for_s=2.0, manner=Yield.SUSPEND)
    history = [Stretch(Kind.IDLE, 4), Stretch(Kind.BUSY, 3), Stretch(Kind.IDLE, 5)]
    acts = run(history, suspending, Character(10_000.0, 0.0, 1.0))
    assert [action.verb for act in acts for action in act.decision.actions] == [
        FillVerb.START,
        FillVerb.SUSPEND,
        FillVerb.RESUME,
    ]


def test_a_filler_that_cannot_be_watched_any_more_leaves() -> None:
    acts = run([Stretch(Kind.IDLE, 5), Stretch(Kind.UNKNOWN, 15)], SIMPLE, FAITHFUL)
    (asked,) = (act for act in acts for action in act.decision.actions if action.verb is FillVerb.ASK)
    assert asked.at_s == 16.0
    assert asked.decision.because == "for 10s nobody could tell who is there: unknown: as drawn"


@modest
@given(histories(KINDS), rules, characters)
def test_nobody_finds_a_filler_that_was_not_told_to_leave(
    history: History, some: FillRules, character: Character
) -> None:
    for act in run(history, some, character):
        if act.kind is Kind.BUSY and act.presence is Presence.RUNNING:
            assert act.decision.state.phase in (Phase.YIELDING, Phase.BACKOFF)


@modest
@given(histories(KINDS), rules, characters)
def test_a_filler_is_let_in_only_after_enough_witnessed_quiet(
    history: History, some: FillRules, character: Character
) -> None:
    acts = run(history, some, character)
    for at, act in enumerate(acts):
        if any(action.verb in (FillVerb.START, FillVerb.RESUME) for action in act.decision.actions):
            quiet_s = 0.0
            for before, now in pairwise(acts[: at + 1]):
                passed_s = now.at_s - before.at_s
                if now.kind is Kind.BUSY:
                    quiet_s = 0.0
                elif now.kind is before.kind is Kind.IDLE and passed_s <= LONGEST_GAP_S:
                    quiet_s += passed_s
            assert act.kind is Kind.IDLE
            assert quiet_s >= some.idle_for_s


@pytest.mark.parametrize("phase", Phase)
def test_the_histories_reach_every_state(phase: Phase) -> None:
    drawn = st.tuples(histories(KINDS), rules, characters)
    reach(drawn, lambda case: phase in phases(run(*case)))


@pytest.mark.parametrize("verb", FillVerb)
def test_the_histories_reach_every_action(verb: FillVerb) -> None:
    drawn = st.tuples(histories(KINDS), rules, characters)
    reach(drawn, lambda case: any(action.verb is verb for act in run(*case) for action in act.decision.actions))
