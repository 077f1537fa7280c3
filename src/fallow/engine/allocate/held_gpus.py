"""Say what happens on the GPUs that a launch waits for, from what the daemon shows, where one runs.

The daemon is asked while a launch waits, every few seconds, and briefly: a launch must be there when its turn comes.
Its answer decides nothing, and is not believed: of it only words from a known set, numbers and short names of rules
are used.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fallow.core.activity import Activity
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu
from fallow.core.units import duration_for_people, printable, shortened
from fallow.core.value import value
from fallow.engine.machine.from_json import wall_s
from fallow.engine.machine.unix_http import NoAnswer
from fallow.engine.machine.world import World

_EVERY_S = 5.0
_AGAIN_AFTER_S = 60.0  # after an answer that did not come, and before times are said anew
_LIMIT_S = 1.0
_TOO_OLD_S = 60.0
_LONGEST_S = 1e9
_MOST_RULES = 4096
_MOST_SAID = 4
_LONGEST_NAME = 40
_MOST_LISTED = 8
_STEPS = {"warn": 1, "ask": 2, "kill": 3}
_PLAIN = {
    Activity.BUSY: ("works", "work"),
    Activity.STUCK: ("hangs", "hang"),
    Activity.UNKNOWN: ("cannot be read", "cannot be read"),
}


@value
class _Rule:
    """How far a rule of the daemon has come with a job on a GPU."""

    name: str
    action: str
    for_s: float
    in_s: float
    acts: bool
    is_protected: bool


@value
class _Said:
    """What is said of one GPU."""

    gpu: str
    state: str
    words: str


@value
class _Shown:
    """What the daemon shows."""

    activities: "_Activities"
    rules: "_Rules"
    is_dry_run: bool


_Rules = Mapping[str, _Rule]
_Activities = Mapping[str, tuple[Activity, float]]


class HeldGpus:
    """What the daemon says of the GPUs that a launch waits for; the empty text while it says nothing."""

    def __init__(self, world: World, limit_s: float = _LIMIT_S) -> None:
        """`limit_s`: how long one answer may take."""
        self._world = world
        self._limit_s = limit_s
        self._daemon = world.daemon(lambda _: None)
        self._next_s = 0.0
        self._fresh_s = 0.0
        self._states: tuple[object, ...] = ()
        self._text = ""

    def in_words(self, gpus: Sequence[Gpu]) -> str:
        """Return what happens on these GPUs, as of some seconds ago; the times in it are renewed once a minute."""
        now_s = self._world.clock.monotonic_s()
        if now_s < self._next_s:
            return self._text
        found = self._asked()
        self._next_s = now_s + (_AGAIN_AFTER_S if found is None else _EVERY_S)
        said = [] if found is None else [each for each in (_said(gpu, found) for gpu in gpus) if each is not None]
        states = tuple((each.gpu, each.state) for each in said)
        if states != self._states or now_s >= self._fresh_s:
            self._states, self._fresh_s = states, now_s + _AGAIN_AFTER_S
            self._text = _together(said)
        return self._text

    def _asked(self) -> _Shown | None:
        """Return what the daemon shows; None if there is none, or it gives no answer that makes sense."""
        try:
            seen = self._daemon.values(self._activities, "GET", "/status", limit_s=self._limit_s)
            rules = None if seen is None else self._daemon.values(_rules, "GET", "/rules", limit_s=self._limit_s)
            if seen is None or rules is None:
                return None
            is_dry_run = bool(rules) and self._daemon.values(_is_dry_run, "GET", "/daemon", limit_s=self._limit_s)
        except (NoAnswer, FallowError):
            return None
        return None if is_dry_run is None else _Shown(seen, rules, is_dry_run)

    def _activities(self, facts: Mapping[str, Any]) -> _Activities:
        if abs(self._world.clock.wall_s() - wall_s(facts["at"])) > _TOO_OLD_S:
            raise ValueError("the daemon has not looked lately")
        gpus = facts["gpus"][:_MOST_RULES]
        return {_text(each["uuid"]): (Activity(each["activity"]), _seconds(each["for_s"])) for each in gpus}


def _rules(facts: Mapping[str, Any]) -> _Rules:
    """Return the rule on each GPU that has come furthest, by UUID."""
    found: dict[str, _Rule] = {}
    for each in facts["rules"][:_MOST_RULES]:
        if each.get("not_judged") is not None:
            continue
        stopped_by = (each["refused"], each["left_alone"], each["held_back"])
        acts = all(why is None for why in stopped_by)
        name, action = shortened(printable(_text(each["rule"])), _LONGEST_NAME), _text(each["action"])
        is_protected = each["left_alone"] is not None
        rule = _Rule(name, action, _seconds(each["for_s"]), _seconds(each["in_s"]), acts, is_protected)
        for uuid in map(_text, each["uuids"][:_MOST_RULES]):
            before = found.get(uuid)
            if before is None or _STEPS.get(rule.action, 0) > _STEPS.get(before.action, 0):
                found[uuid] = rule
    return found


def _is_dry_run(facts: Mapping[str, Any]) -> bool:
    if not isinstance(facts["dry_run"], bool):
        raise TypeError("it is neither true nor false")
    return facts["dry_run"]


def _said(gpu: Gpu, shown: _Shown) -> _Said | None:
    """Return what happens on a GPU; None if it is free, or not in the answer."""
    activity, for_s = shown.activities.get(str(gpu.uuid), (Activity.FREE, 0.0))
    rule = shown.rules.get(str(gpu.uuid))
    if activity is Activity.IDLE:
        for_s = for_s if rule is None else max(for_s, rule.for_s)
        state, words = "idle", f"has been idle for {_about(for_s)}" if for_s else "is idle"
    elif activity in _PLAIN:
        state, words = activity.value, _PLAIN[activity][0]
    else:
        return None
    if rule is None:
        return _Said(gpu.label, state, words)
    if rule.is_protected:
        return _Said(gpu.label, state, f"{words}; its job is protected, so no rule stops it")
    return _follows(gpu, rule, words, is_dry_run=shown.is_dry_run) or _Said(gpu.label, state, words)


def _follows(gpu: Gpu, rule: _Rule, words: str, *, is_dry_run: bool) -> _Said | None:
    """Return what a rule does next to the job on a GPU; None if that is nothing, or nothing yet."""
    if not rule.acts or rule.action not in _STEPS:
        return None
    if rule.action == "kill":
        asked = "would have been asked to end (dry run)" if is_dry_run else "was asked to end"
        return _Said(gpu.label, "asked", f"{words}; its job {asked}")
    if not rule.for_s:
        return None
    dry = " (dry run)" if is_dry_run else ""
    if rule.action == "ask":
        stops = "would stop" if is_dry_run else "stops"
        ends = f"the rule {rule.name} {stops} its job in {_about(rule.in_s)} unless it works{dry}"
        return _Said(gpu.label, "warned", f"{words}; {ends}")
    warns = "would be" if is_dry_run else "is"
    return _Said(gpu.label, "counted", f"{words}; its user {warns} warned in {_about(rule.in_s)}{dry}")


def _together(said: Sequence[_Said]) -> str:
    """Return one text, with the GPUs that are about to become free first."""
    parts = [
        f"GPU {each.gpu} {each.words}"
        for state in ("asked", "warned", "counted", "idle")
        for each in said
        if each.state == state
    ]
    more = len(parts) - _MOST_SAID
    parts = [*parts[:_MOST_SAID], *([f"{more} more are idle"] if more > 0 else [])]
    for activity, (one_does, many_do) in _PLAIN.items():
        gpus = [each.gpu for each in said if each.state == activity.value]
        if gpus:
            parts.append(f"GPU {gpus[0]} {one_does}" if len(gpus) == 1 else f"{_listed(gpus)} {many_do}")
    return ". ".join(parts)


def _listed(gpus: Sequence[str]) -> str:
    """Return several GPUs by their labels; many by their number."""
    if len(gpus) > _MOST_LISTED:
        return f"{len(gpus)} GPUs"
    return f"GPUs {', '.join(gpus[:-1])} and {gpus[-1]}"


def _about(seconds: float) -> str:
    """Return a time without seconds where there are minutes: it is renewed once a minute."""
    return duration_for_people(int(seconds) if seconds < 60 else seconds - seconds % 60)


def _seconds(fact: object) -> float:
    """Return seconds that a daemon said; 0 if they make no sense."""
    return float(fact) if isinstance(fact, int | float) and 0 <= fact < _LONGEST_S else 0.0


def _text(fact: object) -> str:
    if not isinstance(fact, str):
        raise TypeError("it is no text")
    return fact
