"""The generator is worth its name: it reaches every state of every policy."""

import pytest
from hypothesis import strategies as st

from fallow.policies.guard import GuardRules, Phase
from fallow.policies.idle import IdleRules
from fallow.policies.ladder import Rung
from fallow.policies.stuck import StuckRules
from tests.policies.histories import (
    ACTIONS,
    GUARD_KINDS,
    STUCK_KINDS,
    Kind,
    Stretch,
    histories,
    idle_rules,
    looks,
    reach,
    run_guard,
    run_idle,
    run_stuck,
)


@pytest.mark.parametrize("rung", list(Rung))
def test_histories_reach_every_rung_of_the_idle_policy(rung: Rung) -> None:
    rules = IdleRules(timeout_s=8.0, warmup_s=4.0, grace_s=3.0)
    reach(
        histories(),
        lambda history: any(s.ladder.rung is rung for s in run_idle(history, rules)[1]),
    )


def test_histories_see_a_job_warming_up_and_warm() -> None:
    def both(drawn: tuple[list[Stretch], IdleRules]) -> bool:
        history, rules = drawn
        warm = {state.warmed_s >= rules.warmup_s for state in run_idle(history, rules)[1]}
        return warm == {True, False}

    reach(st.tuples(histories(), idle_rules), both)


@pytest.mark.parametrize("finding", ["clear", "suspect", "stuck", "unknown"])
def test_histories_reach_every_finding_on_hangs(finding: str) -> None:
    rules = StuckRules(timeout_s=8.0)

    def found(history: list[Stretch]) -> bool:
        return any(decision.verdict.finding == finding for decision in run_stuck(history, rules)[1])

    reach(histories(STUCK_KINDS), found)


@pytest.mark.parametrize("phase", list(Phase))
def test_histories_reach_every_phase_of_the_guard(phase: Phase) -> None:
    rules = GuardRules(ACTIONS, arm_for_s=3.0, idle_for_s=6.0, countdown_s=2.0)
    reach(
        histories(GUARD_KINDS),
        lambda history: any(state.phase is phase for state in run_guard(history, rules)[1]),
    )


def test_twice_as_many_looks_see_the_same_stretches() -> None:
    history = [Stretch(Kind.BUSY, 2), Stretch(Kind.GAP, 1), Stretch(Kind.IDLE, 1)]
    assert [(look.at_s, look.kind) for look in looks(history)] == [
        (1.0, Kind.BUSY),
        (2.0, Kind.BUSY),
        (6.0, Kind.IDLE),
        (7.0, Kind.IDLE),
    ]
    halves = [look for look in looks(history, 0.5) if look.at_s in (1.0, 2.0, 6.0, 7.0)]
    assert halves == list(looks(history))
