"""Decide when a filler may use its GPUs, and when it must leave them.

    QUIET     nobody was there for `idle_for`, and the GPUs are empty  -> FILLED    Start or Resume
    FILLED    a sign of anybody                                        -> YIELDING  Ask or Suspend or Kill
    FILLED    for `blind_for` nobody could tell who is there           -> YIELDING  Ask or Suspend or Kill
    FILLED    the filler ended by itself                               -> BACKOFF
    YIELDING  the grace is over                                        -> YIELDING  Kill
    YIELDING  the filler is off the GPU                                -> QUIET
    BACKOFF   the pause is over                                        -> QUIET
    BACKOFF   the pause is over, and it was quiet for `idle_for`       -> FILLED    Start or Resume

Only witnessed quiet counts, and every sign of anybody resets it to zero. So a filler that left comes back after
`idle_for` of quiet and never sooner. While another filler is still leaving to make room, this one stays QUIET and
says that it wants the GPUs; the other filler's activity resets nothing. An unknown reading neither counts as quiet
nor resets the count. Each filler that ends soon after its start doubles the pause before the next start; one that ran
for `lasted` resets the pause.
"""

from enum import StrEnum
from typing import assert_never

from fallow.core.fillers import FillAction, FillVerb, Presence, Yield
from fallow.core.reasons import Reason, WithReason
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.core.witnessed_time import witnessed_s

_LEAVES = {Yield.TERM: FillVerb.ASK, Yield.KILL: FillVerb.KILL, Yield.SUSPEND: FillVerb.SUSPEND}


class Phase(StrEnum):
    """The state of a filler."""

    QUIET = "quiet"
    FILLED = "filled"
    YIELDING = "yielding"
    BACKOFF = "backoff"


@value
class FillRules:
    """The times in seconds, and how a filler leaves."""

    idle_for_s: float = 30.0
    manner: Yield = Yield.TERM
    grace_s: float = 2.0
    suspend_within_s: float = 5.0
    longest_gap_s: float = 3.0
    blind_for_s: float = 10.0
    lasted_s: float = 60.0
    first_pause_s: float = 2.0
    longest_pause_s: float = 600.0


@value
class FillState:
    """What is remembered of a filler from one look to the next."""

    phase: Phase = Phase.QUIET
    at_s: float | None = None
    quiet_s: float = 0.0
    clear: bool = False
    """Whether the last look found no reason against a filler."""
    since_s: float = 0.0
    """When the filler was started, asked to leave, or ended, by phase."""
    blind_since_s: float | None = None
    killed: bool = False
    failures: int = 0


@value
class FillLook:
    """One look: the reason against the filler (None: nothing), whether it runs, and how it ended if it did."""

    at_s: float
    against: Reason | Unknown | None
    presence: Presence
    ended: str | None = None
    room: bool = True
    """Whether no other filler that yields to this one is still on the GPUs."""


@value
class FillDecision(WithReason):
    """The next state, why, and what to do."""

    state: FillState
    reason: Reason
    actions: tuple[FillAction, ...] = ()
    wants: bool = False
    """Whether it would be on its GPUs now, if other fillers had left them."""
    ended: Reason | None = None
    """How the filler ended, if it just did."""


def step(state: FillState, look: FillLook, rules: FillRules) -> FillDecision:
    """Return the decision on one look."""
    state = _counted(state, look, rules)
    match state.phase:
        case Phase.QUIET:
            return _quiet(state, look, rules)
        case Phase.FILLED:
            return _filled(state, look, rules)
        case Phase.YIELDING:
            return _yielding(state, look, rules)
        case Phase.BACKOFF:
            return _backoff(state, look, rules)
    assert_never(state.phase)


def due_s(state: FillState, rules: FillRules) -> float | None:
    """Return when the next look is due if nothing happens before; None if there is no deadline."""
    if state.phase is Phase.YIELDING and not state.killed:
        return state.since_s + _leaves_within_s(rules)
    if state.phase is Phase.QUIET and state.clear and state.at_s is not None:
        return state.at_s + max(0.0, rules.idle_for_s - state.quiet_s)
    return None


def pause_s(failures: int, rules: FillRules) -> float:
    """Return how long to wait after so many fillers that ended soon after their start."""
    doublings = min(failures - 1, 60)  # beyond, a float would overflow one day
    return float(min(rules.longest_pause_s, rules.first_pause_s * 2.0**doublings))


def against_reason(against: Reason | Unknown) -> Reason:
    """Return what is against a filler as a reason, also where that is unknown."""
    return Reason("unknown", why=against.why) if isinstance(against, Unknown) else against


def _counted(state: FillState, look: FillLook, rules: FillRules) -> FillState:
    """Count the time between two looks that both found no reason: after a reason, it may have ended just now."""
    passed_s = witnessed_s(state.at_s, look.at_s, rules.longest_gap_s)
    blind, clear = isinstance(look.against, Unknown), look.against is None
    quiet_s = (state.quiet_s if clear or blind else 0.0) + (passed_s if clear and state.clear else 0.0)
    since = state.blind_since_s if state.blind_since_s is not None else look.at_s
    return replace(state, at_s=look.at_s, quiet_s=quiet_s, clear=clear, blind_since_s=since if blind else None)


def _quiet(state: FillState, look: FillLook, rules: FillRules) -> FillDecision:
    if look.against is not None:
        return FillDecision(state, against_reason(look.against))
    quiet = Reason("nobody_there", for_s=state.quiet_s)
    if state.quiet_s < rules.idle_for_s:
        return FillDecision(state, quiet)
    if not look.room:
        return FillDecision(state, Reason("makes_way"), wants=True)
    verb = FillVerb.RESUME if look.presence is Presence.SUSPENDED else FillVerb.START
    filled = replace(state, phase=Phase.FILLED, since_s=look.at_s)
    return FillDecision(filled, quiet, (FillAction(verb, quiet),))


def _filled(state: FillState, look: FillLook, rules: FillRules) -> FillDecision:
    if look.ended is not None or look.presence is Presence.ABSENT:
        return _ended(state, look, rules)
    if look.against is None:
        return FillDecision(state, Reason("nobody_else"))
    if not isinstance(look.against, Unknown):
        return _leave(state, look, rules, look.against)
    blind_s = look.at_s - (look.at_s if state.blind_since_s is None else state.blind_since_s)
    if blind_s < rules.blind_for_s:
        return FillDecision(state, against_reason(look.against))
    return _leave(state, look, rules, Reason("blind", for_s=blind_s, why=look.against.why))


def _leave(state: FillState, look: FillLook, rules: FillRules, reason: Reason) -> FillDecision:
    leaving = replace(
        state,
        phase=Phase.YIELDING,
        since_s=look.at_s,
        quiet_s=0.0,
        killed=rules.manner is Yield.KILL,
        failures=_forgiven(state, look, rules),
    )
    return FillDecision(leaving, reason, (FillAction(_LEAVES[rules.manner], reason),))


def _yielding(state: FillState, look: FillLook, rules: FillRules) -> FillDecision:
    if look.presence is not Presence.RUNNING:
        how = "suspended" if look.presence is Presence.SUSPENDED else "gone"
        return FillDecision(replace(state, phase=Phase.QUIET, killed=False), Reason("left", how=how))
    limit_s = _leaves_within_s(rules)
    if not state.killed and look.at_s - state.since_s >= limit_s:
        too_slow = Reason("too_slow", after_s=limit_s)
        return FillDecision(replace(state, killed=True), too_slow, (FillAction(FillVerb.KILL, too_slow),))
    return FillDecision(state, Reason("leaving"))


def _leaves_within_s(rules: FillRules) -> float:
    return rules.suspend_within_s + rules.grace_s if rules.manner is Yield.SUSPEND else rules.grace_s


def _ended(state: FillState, look: FillLook, rules: FillRules) -> FillDecision:
    failures = _forgiven(state, look, rules) + 1
    lasted_s = max(0.0, look.at_s - state.since_s)
    end = Reason("end", how=look.ended or "is gone", for_s=lasted_s, pause_s=pause_s(failures, rules))
    backoff = replace(state, phase=Phase.BACKOFF, since_s=look.at_s, failures=failures)
    return FillDecision(backoff, Reason("ended", end=end), ended=end)


def _backoff(state: FillState, look: FillLook, rules: FillRules) -> FillDecision:
    left_s = state.since_s + pause_s(state.failures, rules) - look.at_s
    if left_s > 0:
        return FillDecision(state, Reason("backoff", in_s=left_s))
    return _quiet(replace(state, phase=Phase.QUIET), look, rules)


def _forgiven(state: FillState, look: FillLook, rules: FillRules) -> int:
    return 0 if look.at_s - state.since_s >= rules.lasted_s else state.failures
