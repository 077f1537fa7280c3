"""Wait for work, then for its end, then act: once, in the order given.

    IDLE       nothing has run for long enough yet
    ARMED      work was seen; now its end is awaited
    COUNTDOWN  it is quiet, and everyone has been told
    ACTING     the deeds are being done; the first that is not done yet holds up the rest
    ACTED      all are done; nothing follows, for ever

    IDLE      --work for arm_for_s-->                         ARMED
    ARMED     --quiet for idle_for_s-->                       COUNTDOWN  Announce
    ARMED     --the same, with no time to count down-->       ACTING     Announce, and the first deed
    COUNTDOWN --quiet for countdown_s-->                      ACTING     the first deed
    COUNTDOWN --work, or a blocker-->                         ARMED      CallOff
    ACTING    --a deed is done-->                             ACTING     the next deed
    ACTING    --the last deed is done-->                      ACTED
    ACTING    --a deed failed, and its pause is over-->       ACTING     the same deed
    ACTING    --a deed failed; work, or a blocker-->          ARMED      CallOff; deeds that are done stay done

Quiet is judged across the cards: `all` goes by the busiest card, `any` by the least busy one, `mean` by their mean.
So with `all` every card must be quiet and one that works arms; with `any` all must have worked, and one may rest.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from fallow.core.actions import Announce, CallOff, Deed, GuardAction, in_words
from fallow.core.elapsed import witnessed_s
from fallow.core.outcome import Outcome
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace, value

Loads = Mapping[str, float | Unknown]
"""How much ran on each card on average since the last tick, by label."""


class Across(StrEnum):
    """Which card the guard goes by."""

    ALL = "all"
    ANY = "any"
    MEAN = "mean"


class Phase(StrEnum):
    """How far the guard has come."""

    IDLE = "idle"
    ARMED = "armed"
    COUNTDOWN = "countdown"
    ACTING = "acting"
    ACTED = "acted"


@value
class GuardRules:
    """When to arm, when to act, and what to do. Ratios are 0..1."""

    deeds: tuple[Deed, ...]
    arm_above: float = 0.10
    arm_for_s: float = 60.0
    idle_below: float = 0.05
    idle_for_s: float = 1800.0
    across: Across = Across.ALL
    countdown_s: float = 60.0
    longest_gap_s: float = 3.0
    first_pause_s: float = 10.0
    """How long after its first failure a deed is tried again; twice as long after each further one."""
    longest_pause_s: float = 600.0


@value
class State:
    """Where the guard stands."""

    phase: Phase = Phase.IDLE
    at_s: float | None = None
    seconds: float = 0.0
    """Witnessed towards the next phase: of work, of quiet, of the countdown, or of the pause after a failure."""
    done: int = 0
    """How many deeds are done, in their order."""
    failures: int = 0
    """How often the deed that is next has failed."""
    under_way: bool = False
    """A deed was given to the hands, and what came of it has not been told."""
    why: str = ""
    """The sentence that the countdown began with: the because of every deed."""


@value
class Decision:
    """The state after a tick, what is to be done, and a sentence on where it stands."""

    state: State
    because: str
    actions: tuple[GuardAction, ...] = ()


def step(state: State, at_s: float, loads: Loads, blockers: Sequence[str | Unknown], rules: GuardRules) -> Decision:
    """One tick. A blocker is a reason not to act: a hold, a person at a terminal, a CPU that works.

    The idle time goes back to zero, and a countdown is called off, by
      - a load of idle_below or more, judged across the cards;
      - a blocker of any kind.
    The idle time and the countdown pause, and nothing is lost, while
      - the load of a card is unknown and the others do not show work;
      - a blocker cannot be read;
      - nobody looks: a gap, a suspend of the machine, a restart.
    """
    passed_s = witnessed_s(state.at_s, at_s, rules.longest_gap_s)
    now = replace(state, at_s=at_s)
    match state.phase:
        case Phase.IDLE:
            return _wait_for_work(now, passed_s, loads, rules)
        case Phase.ACTED:
            return Decision(now, "all is done")
        case Phase.ARMED | Phase.COUNTDOWN | Phase.ACTING:
            if state.under_way:
                return Decision(now, f"{in_words(rules.deeds[state.done])}: under way")
            return _wait_for_quiet(now, passed_s, _against(loads, blockers, rules), rules)
    assert_never(state.phase)


def came_of(state: State, outcome: Outcome, rules: GuardRules) -> Decision:
    """What follows from what came of the deed that was under way: the next, a pause, or the end."""
    if not state.under_way:
        raise ValueError("no deed is under way")
    what = in_words(rules.deeds[state.done])
    if outcome.ok:
        done = replace(state, done=state.done + 1, failures=0, under_way=False, seconds=0.0)
        return _next_deed(done, f"{what}: {outcome.words}", rules)
    failed = replace(state, failures=state.failures + 1, under_way=False, seconds=0.0)
    pause = duration_for_people(_pause_s(failed.failures, rules))
    return Decision(failed, f"{what}: failed {_times(failed.failures)} ({outcome.words}); again in {pause}")


def _wait_for_work(now: State, passed_s: float, loads: Loads, rules: GuardRules) -> Decision:
    least = _least(loads, rules.across)
    if least <= rules.arm_above:
        unknown = _unknown(loads)
        if unknown is not None:
            return Decision(now, f"waits for work; {unknown.why}")
        return Decision(replace(now, seconds=0.0), f"waits for work; {_load_in_words(least, rules)}")
    seconds = now.seconds + passed_s
    if seconds < rules.arm_for_s or passed_s == 0:
        return Decision(replace(now, seconds=seconds), f"work for {duration_for_people(seconds)}")
    return Decision(replace(now, phase=Phase.ARMED, seconds=0.0), f"armed: work for {duration_for_people(seconds)}")


def _wait_for_quiet(now: State, passed_s: float, against: str | Unknown | None, rules: GuardRules) -> Decision:
    """What armed, counting down and waiting to try again have in common: only quiet that is known leads on."""
    if isinstance(against, Unknown):
        return Decision(now, f"{now.phase}, paused: {against.why}")
    if against is not None:
        called_off = () if now.phase is Phase.ARMED else (CallOff(against),)
        return Decision(replace(now, phase=Phase.ARMED, seconds=0.0), f"armed: {against}", called_off)
    later = replace(now, seconds=now.seconds + passed_s)
    needed_s = _needed_s(now, rules)
    if later.seconds < needed_s or passed_s == 0:
        lasted, needed = duration_for_people(later.seconds), duration_for_people(needed_s)
        return Decision(later, f"{now.phase}: quiet for {lasted} of {needed}")
    if now.phase is Phase.ARMED:
        because = f"the GPUs have been quiet for {duration_for_people(later.seconds)}"
        announced = replace(later, phase=Phase.COUNTDOWN, seconds=0.0, why=because)
        announce = Announce(because, rules.countdown_s)
        if rules.countdown_s > 0:
            return Decision(announced, because, (announce,))
        at_once = _next_deed(replace(announced, phase=Phase.ACTING), because, rules)
        return replace(at_once, actions=(announce, *at_once.actions))
    return _next_deed(replace(later, phase=Phase.ACTING, seconds=0.0), "the GPUs stayed quiet", rules)


def _needed_s(now: State, rules: GuardRules) -> float:
    if now.phase is Phase.ARMED:
        return rules.idle_for_s
    return rules.countdown_s if now.phase is Phase.COUNTDOWN else _pause_s(now.failures, rules)


def _next_deed(state: State, because: str, rules: GuardRules) -> Decision:
    if state.done == len(rules.deeds):
        return Decision(replace(state, phase=Phase.ACTED), because)
    tried = f"; failed {_times(state.failures)} before" if state.failures else ""
    deed = replace(rules.deeds[state.done], because=f"{state.why}{tried}")
    return Decision(replace(state, under_way=True), because, (deed,))


def _pause_s(failures: int, rules: GuardRules) -> float:
    doublings = min(failures - 1, 62)  # beyond, a float would overflow one day
    return float(min(rules.longest_pause_s, rules.first_pause_s * 2**doublings))


def _against(loads: Loads, blockers: Sequence[str | Unknown], rules: GuardRules) -> str | Unknown | None:
    """What speaks against acting: a reason that sets the time back, an Unknown that pauses it, or None."""
    least = _least(loads, rules.across)
    if least > 0 and least >= rules.idle_below:
        return _load_in_words(least, rules)
    unknowns: list[Unknown] = []
    for blocker in blockers:
        if not isinstance(blocker, Unknown):
            return blocker
        unknowns.append(blocker)
    unknown = _unknown(loads)
    return unknown if unknown is not None else next(iter(unknowns), None)


def _least(loads: Loads, across: Across) -> float:
    """The load to go by, with nothing assumed of cards that are unknown: it is so much, or more."""
    values = [known(load, 0.0) for load in loads.values()] or [0.0]
    match across:
        case Across.ALL:
            return max(values)
        case Across.ANY:
            return min(values)
        case Across.MEAN:
            return sum(values) / len(values)
    assert_never(across)


def _unknown(loads: Loads) -> Unknown | None:
    """Why quiet cannot be told, if it cannot."""
    if not loads:
        return Unknown("there is no GPU to watch")
    for label, load in loads.items():
        if isinstance(load, Unknown):
            return Unknown(f"the load of GPU {label} is {load}")
    return None


def _load_in_words(load: float, rules: GuardRules) -> str:
    match rules.across:
        case Across.ALL:
            return f"the busiest GPU is at {load:.0%}"
        case Across.ANY:
            return f"the least busy GPU is at {load:.0%}"
        case Across.MEAN:
            return f"the GPUs are at {load:.0%} on average"
    assert_never(rules.across)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
