"""The generator is worth its name: it reaches every state of every policy."""

from collections.abc import Callable

import pytest
from hypothesis.strategies import SearchStrategy

from fallow.policies.guard import GuardRules, Phase
from fallow.policies.idle import IdleRules
from fallow.policies.ladder import Rung
from fallow.policies.stuck import StuckRules
from tests.policies.histories import (
    ACTIONS,
    GUARD_KINDS,
    STUCK_KINDS,
    History,
    histories,
    reach,
    run_guard,
    run_idle,
    run_stuck,
)

IDLE = IdleRules(timeout_s=8.0, warmup_s=4.0, grace_s=3.0)
STUCK = StuckRules(timeout_s=8.0)
GUARD = GuardRules(ACTIONS, arm_for_s=3.0, idle_for_s=6.0, countdown_s=2.0)


def rungs(history: History) -> set[str]:
    return {"cold" if state.warmed_s < IDLE.warmup_s else "warm" for state in run_idle(history, IDLE)[1]} | {
        state.ladder.rung.name for state in run_idle(history, IDLE)[1]
    }


def findings(history: History) -> set[str]:
    return {decision.verdict.finding for decision in run_stuck(history, STUCK)[1]}


def phases(history: History) -> set[str]:
    return {state.phase.name for state in run_guard(history, GUARD)[1]}


@pytest.mark.parametrize(
    ("drawn", "states", "state"),
    [
        *((histories(), rungs, name) for name in (*Rung.__members__, "cold", "warm")),
        *((histories(STUCK_KINDS), findings, name) for name in ("clear", "suspect", "stuck", "unknown")),
        *((histories(GUARD_KINDS), phases, name) for name in Phase.__members__),
    ],
)
def test_the_histories_reach_every_state(
    drawn: SearchStrategy[History], states: Callable[[History], set[str]], state: str
) -> None:
    reach(drawn, lambda history: state in states(history))
