"""Wait for work, then for its end, then act: once, in the order given.

    IDLE       work for arm_for_s                                            -> ARMED
    ARMED      quiet for idle_for_s                                          -> COUNTDOWN  Announce
    ARMED      quiet for idle_for_s, and countdown_s is 0                    -> ACTING     Announce and HostAction
    COUNTDOWN  quiet for countdown_s                                         -> ACTING     HostAction
    COUNTDOWN  work, or a blocker                                            -> ARMED      CallOff
    ACTING     an action succeeded or is given up, and another is left       -> ACTING     HostAction
    ACTING     an action failed, and the pause is over                       -> ACTING     HostAction
    ACTING     every action is done or given up                              -> ACTED
    ACTING     work, or a blocker, in a pause; what is done stays done       -> ARMED      CallOff

Nothing follows ACTED. An action that fails is tried three times, after 10 and 20 seconds, and then given up for the
next one: a notice that cannot be sent never keeps a machine on. Turning the machine off is tried without limit.

Quiet is judged across the GPUs: `all` uses the busiest GPU, `any` the least busy one, `mean` their mean. So
with `all` every GPU must be quiet and one that works arms the guard; with `any` all must have worked, and one may
rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from fallow.core.actions import Announce, CallOff, GuardAction, HostAction, PowerOff, Reboot, in_words
from fallow.core.findings import Outcome
from fallow.core.reasons import Reason, WithReason
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace, value
from fallow.core.witnessed_time import witnessed_s

_MOST_TRIES = 3
_MOST_PAUSES = 6
"""A pause grows up to six times the first one."""

Loads = Mapping[str, float | Unknown]
"""The mean load of each GPU since the last tick, by label."""


class Across(StrEnum):
    """Which GPU's load the guard judges."""

    ALL = "all"
    ANY = "any"
    MEAN = "mean"


class Phase(StrEnum):
    """The phases of a guard."""

    IDLE = "idle"
    ARMED = "armed"
    COUNTDOWN = "countdown"
    ACTING = "acting"
    ACTED = "acted"


@value
class Contradiction:
    """What is wrong with one setting: its key in the config, its place if it is one of several, and the remedy."""

    key: str
    sentence: str
    remedy: str
    place: int | None = None
    rests_on: str | None = None
    """The key that it contradicts, which the remedy names."""


@value
class GuardRules:
    """When to arm, when to act, and what to do. Ratios are 0..1."""

    actions: tuple[HostAction, ...]
    arm_above: float = 0.10
    arm_for_s: float = 60.0
    idle_below: float = 0.05
    idle_for_s: float = 1800.0
    across: Across = Across.ALL
    countdown_s: float = 60.0
    longest_gap_s: float = 3.0
    pause_s: float = 10.0
    """How long after its first failure an action is tried again; twice as long after the second, and so on."""

    def check(self) -> Iterator[Contradiction]:
        """Yield each setting that contradicts another."""
        if self.idle_below > self.arm_above:
            sentence = "what arms the guard would also be quiet to it"
            remedy = f"at most arm_above, which is {self.arm_above * 100:g}"
            yield Contradiction("idle_below", sentence, remedy, rests_on="arm_above")
        for place, action in enumerate(self.actions[:-1]):
            if isinstance(action, PowerOff | Reboot):
                yield Contradiction("action", "nothing can follow when the machine is down", "put it last", place)


@value
class State:
    """The state of a guard."""

    phase: Phase = Phase.IDLE
    at_s: float | None = None
    seconds: float = 0.0
    """Witnessed towards the next phase: of work, of quiet, of the countdown, or of the pause after a failure."""
    index: int = 0
    """Which action is next; those before it are done or given up."""
    tries: int = 0
    """How often that action has failed."""
    why: Reason = Reason("as_asked")
    """Why the countdown began, which is the reason of every action."""


@value
class Decision(WithReason):
    """The state after a tick, why it is so, and what is to be done."""

    state: State
    reason: Reason
    actions: tuple[GuardAction, ...] = ()


def step(
    state: State, at_s: float, loads: Loads, blockers: Sequence[Reason | Unknown], rules: GuardRules
) -> Decision:
    """Decide one tick in which no action is under way. A blocker is a reason not to act, such as a protection.

    The idle time goes back to zero, and a countdown is called off, by
      - a load of idle_below or more, judged across the GPUs;
      - a blocker of any kind.
    The idle time and the countdown pause, and nothing is lost, while
      - the load of a GPU is unknown and the others do not show work;
      - a blocker cannot be read;
      - there are no looks: a gap, a suspend of the machine, a restart, an action that is under way.
    """
    passed_s = witnessed_s(state.at_s, at_s, rules.longest_gap_s)
    now = replace(state, at_s=at_s)
    match state.phase:
        case Phase.IDLE:
            return _wait_for_work(now, passed_s, loads, rules)
        case Phase.ACTED:
            return Decision(now, Reason("all_done"))
        case Phase.ARMED | Phase.COUNTDOWN | Phase.ACTING:
            return _wait_for_quiet(now, passed_s, _against(loads, blockers, rules), rules)
    assert_never(state.phase)


def after_action(state: State, outcome: Outcome, rules: GuardRules) -> Decision:
    """Decide what follows from the outcome of the action that was begun last: the next one, a pause, or the end."""
    action = rules.actions[state.index]
    words = in_words(action)
    following = replace(state, seconds=0.0, index=state.index + 1, tries=0)
    if outcome.ok:
        return _next_action(following, Reason("done", action=words, outcome=outcome.words), rules)
    failed = Reason("failed", action=words, outcome=outcome.words)
    tries = state.tries + 1
    if tries < _MOST_TRIES or isinstance(action, PowerOff | Reboot):
        again = replace(state, seconds=0.0, tries=tries)
        return Decision(again, Reason("again_in", found=failed, pause_s=_pause_s(again, rules)))
    return _next_action(following, Reason("given_up", found=failed), rules)


def _wait_for_work(now: State, passed_s: float, loads: Loads, rules: GuardRules) -> Decision:
    least = _least(loads, rules.across)
    if least <= rules.arm_above:
        unknown = _unknown(loads)
        if unknown is not None:
            return Decision(now, Reason("waits_for_work", found=unknown.why))
        waits = Reason("waits_for_work", found=_load_reason(least, rules))
        return Decision(replace(now, seconds=0.0), waits)
    seconds = now.seconds + passed_s
    worked = Reason("worked", for_s=seconds)
    if seconds < rules.arm_for_s or passed_s == 0:
        return Decision(replace(now, seconds=seconds), worked)
    return Decision(replace(now, phase=Phase.ARMED, seconds=0.0), worked)


def _wait_for_quiet(now: State, passed_s: float, against: Reason | Unknown | None, rules: GuardRules) -> Decision:
    """Decide what armed, countdown and a pause after a failure have in common: only known quiet leads on."""
    if isinstance(against, Unknown):
        return Decision(now, Reason("paused", why=against.why))
    if against is not None:
        called_off = () if now.phase is Phase.ARMED else (CallOff(against),)
        armed = replace(now, phase=Phase.ARMED, seconds=0.0)
        return Decision(armed, against, called_off)
    later = replace(now, seconds=now.seconds + passed_s)
    needed_s = _needed_s(now, rules)
    if later.seconds < needed_s or passed_s == 0:
        so_far = Reason("quiet_so_far", for_s=later.seconds, after_s=needed_s)
        return Decision(later, so_far)
    if now.phase is Phase.ARMED:
        quiet = Reason("gpus_quiet", for_s=later.seconds)
        announced = replace(later, phase=Phase.COUNTDOWN, seconds=0.0, why=quiet)
        announce = Announce(quiet, rules.countdown_s)
        if rules.countdown_s > 0:
            return Decision(announced, quiet, (announce,))
        at_once = _next_action(replace(announced, phase=Phase.ACTING), quiet, rules)
        return replace(at_once, actions=(announce, *at_once.actions))
    acting = replace(later, phase=Phase.ACTING, seconds=0.0)
    return _next_action(acting, Reason("gpus_stayed_quiet"), rules)


def _needed_s(now: State, rules: GuardRules) -> float:
    if now.phase is Phase.ARMED:
        return rules.idle_for_s
    if now.phase is Phase.COUNTDOWN:
        return rules.countdown_s
    return _pause_s(now, rules)


def _next_action(state: State, found: Reason, rules: GuardRules) -> Decision:
    """Begin the action that is next, or end if there is none."""
    if state.index == len(rules.actions):
        return Decision(replace(state, phase=Phase.ACTED), found)
    return Decision(state, found, (replace(rules.actions[state.index], reason=state.why),))


def _pause_s(state: State, rules: GuardRules) -> float:
    return rules.pause_s * min(state.tries, _MOST_PAUSES)


def _against(loads: Loads, blockers: Sequence[Reason | Unknown], rules: GuardRules) -> Reason | Unknown | None:
    """Return what is against acting: a reason that resets the time, an Unknown that pauses it, or None."""
    least = _least(loads, rules.across)
    if least >= rules.idle_below:
        return _load_reason(least, rules)
    for blocker in blockers:
        if not isinstance(blocker, Unknown):
            return blocker
    unknown = _unknown(loads)
    return unknown if unknown is not None else next(iter(blockers), None)


def _least(loads: Loads, across: Across) -> float:
    """Return the load to judge, with unknown GPUs as zero: the true one is this or more."""
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
    """Return why quiet is unknown, if it is."""
    if not loads:
        return Unknown("there is no GPU to watch")
    for label, load in loads.items():
        if isinstance(load, Unknown):
            return Unknown(f"the load of GPU {label} is {load}")
    return None


def _load_reason(load: float, rules: GuardRules) -> Reason:
    return Reason(f"load_{rules.across}", load=load)
