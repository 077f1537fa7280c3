"""Histories for policies, drawn as stretches: what lasts in the world, lasts here.

Ticks drawn one by one would almost never be idle for ten in a row. A history is a list of stretches, each of one
kind and some whole ticks long; `looks` turns it into what a watcher sees, at any rate that divides a tick.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

from hypothesis import Phase as Part
from hypothesis import find, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fallow.core.actions import Action, GuardAction, HostAction, Notify, PowerOff, RunCommand
from fallow.core.findings import Outcome
from fallow.core.gpu import Counters, Gpu, Snapshot
from fallow.core.job import GpuKey, JobActivity, JobFinding
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.policies import guard, idle, stuck
from tests.core.gpus import held
from tests.length import examples
from tests.policies.loads import FLAT_OUT, HOLDS, SPINS, card
from tests.reasons import said

_Drawn = TypeVar("_Drawn")
TICK_S = 1.0
LONGEST_GAP_S = 3 * TICK_S
modest = settings(max_examples=examples(80), deadline=None)
_first = settings(max_examples=2000, deadline=None, derandomize=True, database=None, phases=(Part.generate,))


def reach(drawn: SearchStrategy[_Drawn], does: Callable[[_Drawn], bool]) -> None:
    """Some history does that. Which is the shortest that does, nobody asks: that takes most of the time."""
    find(drawn, does, settings=_first)


class Kind(StrEnum):
    """What a stretch is like."""

    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"
    GAP = "gap"
    """Nobody looks; the first look after it is idle, which tempts most."""
    BLOCKED = "blocked"
    """Idle, and somebody speaks against acting: for the guard, and for protections."""
    HUNG = "hung"


JOB_KINDS = (Kind.BUSY, Kind.IDLE, Kind.UNKNOWN, Kind.GAP)
GUARD_KINDS = (*JOB_KINDS, Kind.BLOCKED)
STUCK_KINDS = (*JOB_KINDS, Kind.HUNG)


class Stretch(NamedTuple):
    """Some ticks of one kind."""

    kind: Kind
    ticks: int

    @property
    def seconds(self) -> float:
        """How long it lasts; a gap is always longer than the longest that still counts."""
        return self.ticks * TICK_S + (LONGEST_GAP_S if self.kind is Kind.GAP else 0.0)


History = list[Stretch]


class Look(NamedTuple):
    """What a watcher sees at one moment of the stretch since its last look."""

    at_s: float
    kind: Kind


class Event(NamedTuple):
    """An action, and when it was decided."""

    at_s: float
    action: Action


def histories(kinds: Sequence[Kind] = JOB_KINDS, most: int = 12) -> st.SearchStrategy[History]:
    """Histories of short and long stretches."""
    lengths = st.integers(1, 4) | st.integers(5, 40)
    return st.lists(st.builds(Stretch, st.sampled_from(kinds), lengths), max_size=most)


def quarters(least: int, most: int) -> st.SearchStrategy[float]:
    """Seconds in steps of a quarter, which floats add up exactly."""
    return st.integers(least * 4, most * 4).map(lambda count: count / 4)


idle_rules = st.builds(
    idle.IdleRules,
    timeout_s=quarters(2, 20),
    warmup_s=quarters(0, 10),
    grace_s=quarters(0, 6),
    longest_gap_s=st.just(LONGEST_GAP_S),
)
any_idle_rules = st.builds(
    idle.IdleRules,
    timeout_s=quarters(1, 20),
    warmup_s=quarters(0, 10),
    grace_s=quarters(0, 6),
    longest_gap_s=st.just(LONGEST_GAP_S),
    warn_before_s=st.none() | quarters(0, 20),
)
stuck_rules = st.builds(
    stuck.StuckRules,
    timeout_s=quarters(2, 20),
    acts=st.just(True),
    grace_s=quarters(0, 6),
    longest_gap_s=st.just(LONGEST_GAP_S),
)
ACTIONS: tuple[HostAction, ...] = (Notify("ntfy://quiet"), RunCommand("sync"), PowerOff())
guard_rules = st.builds(
    guard.GuardRules,
    actions=st.just(ACTIONS),
    arm_for_s=quarters(1, 6),
    idle_for_s=quarters(1, 15),
    countdown_s=quarters(0, 6),
    longest_gap_s=st.just(LONGEST_GAP_S),
    pause_s=quarters(1, 4),
)


def looks(history: History, every_s: float = TICK_S) -> Iterator[Look]:
    """What a watcher sees who looks so often."""
    at_s = 0.0
    for stretch in history:
        if stretch.kind is Kind.GAP:
            at_s += stretch.seconds
            yield Look(at_s, Kind.IDLE)
            continue
        for _ in range(round(stretch.seconds / every_s)):
            at_s += every_s
            yield Look(at_s, stretch.kind)


def seen_s(history: History, kind: Kind, until_s: float) -> float:
    """Seconds of one kind before a moment."""
    total, at_s = 0.0, 0.0
    for stretch in history:
        if stretch.kind is kind:
            total += max(0.0, min(stretch.seconds, until_s - at_s))
        at_s += stretch.seconds
    return total


def first(events: Sequence[Event], kind: type[Action]) -> float | None:
    """When the first action of a kind was decided."""
    return next((event.at_s for event in events if isinstance(event.action, kind)), None)


def run_idle(
    history: History, rules: idle.IdleRules, every_s: float = TICK_S
) -> tuple[list[Event], list[idle.State]]:
    """All that the idle policy decides, and every state that it was in."""
    state, events, states = idle.State(at_s=0.0), [], []
    for look in looks(history, every_s):
        activity = JobActivity.IDLE if look.kind is Kind.BLOCKED else JobActivity(look.kind)
        protection = PROTECTED if look.kind is Kind.BLOCKED else None
        decision = idle.step(state, look.at_s, JobFinding(activity, said("as drawn")), rules, protection)
        state = decision.state
        states.append(state)
        events += [Event(look.at_s, action) for action in decision.actions]
    return events, states


PROTECTED = Reason("protected", protection="a protection")


def key(uuid: object) -> GpuKey:
    """A GPU of the snapshots here."""
    return GpuKey("host", str(uuid))


def snapshot(at_s: float, *gpus: Gpu, wall_s: float = 0.0) -> Snapshot:
    """Cards at one moment."""
    return Snapshot("host", simulated=False, at_s=at_s, wall_s=wall_s, gpus=gpus)


_CARDS = {
    Kind.BUSY: card(FLAT_OUT),
    Kind.IDLE: card(HOLDS),
    Kind.HUNG: card(SPINS),
    Kind.UNKNOWN: held(recent=Unknown("no sample"), counters=Counters(0.0, 0.0, 0.0, 0.0)),
}


def run_stuck(
    history: History, rules: stuck.StuckRules, wall: Callable[[float], float] = lambda at_s: at_s
) -> tuple[list[Event], list[stuck.Decision]]:
    """All that the policy on hangs decides, after a first look at a card at rest."""
    at_rest = snapshot(0.0, _CARDS[Kind.IDLE])
    gpu = key(_CARDS[Kind.IDLE].uuid)
    state = stuck.step(stuck.State(), at_rest, [gpu], rules).state
    events, decisions = [], []
    for look in looks(history):
        seen = snapshot(look.at_s, _CARDS[look.kind], wall_s=wall(look.at_s))
        decision = stuck.step(state, seen, [gpu], rules)
        state = decision.state
        decisions.append(decision)
        events += [Event(look.at_s, action) for action in decision.actions]
    return events, decisions


Hands = Callable[[HostAction, int], Outcome]
"""What comes of a deed that is tried for the n-th time."""

_LOADS: dict[Kind, float | Unknown] = {
    Kind.BUSY: 0.9,
    Kind.IDLE: 0.0,
    Kind.BLOCKED: 0.0,
    Kind.UNKNOWN: Unknown("the card does not answer"),
}


def willing(_action: HostAction, _attempt: int) -> Outcome:
    """Hands that manage everything at once."""
    return Outcome(ok=True, words="done")


def run_guard(
    history: History, rules: guard.GuardRules, every_s: float = TICK_S, hands: Hands = willing
) -> tuple[list[Event], list[guard.State]]:
    """All that the guard decides, with hands that do it, and every state that it was in."""
    run = GuardRun(rules, hands)
    for look in looks(history, every_s):
        blockers = [said("alice is at pts/0")] if look.kind is Kind.BLOCKED else []
        run.tick(look.at_s, {"0": _LOADS[look.kind]}, blockers)
    return run.events, run.states


class GuardRun:
    """A guard and its hands, tick by tick."""

    def __init__(self, rules: guard.GuardRules, hands: Hands = willing) -> None:
        self._rules = rules
        self._hands = hands
        self._attempts: dict[int, int] = {}
        self.state = guard.State(at_s=0.0)
        self.states: list[guard.State] = []
        self.events: list[Event] = []
        self.told: list[str] = []
        """What was said of each action that failed."""

    def tick(self, at_s: float, loads: guard.Loads, blockers: Sequence[Reason | Unknown] = ()) -> None:
        """One tick, and whatever follows from it."""
        decision = guard.step(self.state, at_s, loads, blockers, self._rules)
        self._take(at_s, decision)
        while any(isinstance(action, HostAction) for action in decision.actions):
            number = self.state.index
            self._attempts[number] = self._attempts.get(number, 0) + 1
            outcome = self._hands(self._rules.actions[number], self._attempts[number])
            decision = guard.after_action(self.state, outcome, self._rules)
            self._take(at_s, decision)
            if not outcome.ok:
                self.told.append(decision.because)

    def _take(self, at_s: float, decision: guard.Decision) -> None:
        self.state = decision.state
        self.states.append(self.state)
        actions: tuple[GuardAction, ...] = decision.actions
        self.events += [Event(at_s, action) for action in actions]


def actions_of(events: Sequence[Event]) -> list[type[Action]]:
    """The kinds of the deeds that were begun, in order."""
    return [type(event.action) for event in events if isinstance(event.action, HostAction)]
