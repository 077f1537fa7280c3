"""Decide which notices are sent together as one message, and which are only counted.

    EMPTY    nothing waits
    WAITING  the first of a group has come

    EMPTY    --a notice-->                                        WAITING
    WAITING  --group_for_s later, or one that cannot wait-->      EMPTY    one message, if there may be one more

A notice is only counted, and the next message says how many, if it repeats an event about the same subject within
SAME_AGAIN_S, if MOST_WAITING wait already, or if its group would be more than at_most messages in per_s. A notice
that the machine goes down is sent at once, and always.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from fallow.core.notices import NOTICE_EVENTS, Notice, NoticeEvent
from fallow.core.units import printable, shortened
from fallow.core.value import replace, value

SAME_AGAIN_S = 600.0
MOST_WAITING = 100
_LONGEST_LINE = 500
_CANNOT_WAIT = frozenset({"going_down"})
_NONE: Mapping[NoticeEvent, int] = MappingProxyType({})
_NEVER: Mapping[tuple[str, str], float] = MappingProxyType({})


@value
class GroupingRules:
    """Which events are sent, and how many messages at most."""

    events: frozenset[str] = frozenset(NOTICE_EVENTS)
    group_for_s: float = 10.0
    at_most: int = 20
    per_s: float = 3600.0


@value
class Outbox:
    """The notices that wait, and what is remembered of those that were sent."""

    waiting: tuple[Notice, ...] = ()
    since_s: float | None = None
    sent_at_s: tuple[float, ...] = ()
    told_at_s: Mapping[tuple[str, str], float] = _NEVER
    left_out: Mapping[NoticeEvent, int] = _NONE


@value
class Message:
    """One message to people, made of one or more notices."""

    title: str
    text: str


def note(box: Outbox, notice: Notice, at_s: float, rules: GroupingRules) -> Outbox:
    """Return the outbox with one more notice, or with one more counted."""
    if notice.event not in rules.events:
        return box
    told_s = box.told_at_s.get((notice.event, notice.subject))
    again = told_s is not None and at_s - told_s < SAME_AGAIN_S
    full = len(box.waiting) >= MOST_WAITING
    if notice.event not in _CANNOT_WAIT and (again or full):
        return replace(box, left_out=_counted(box.left_out, [notice]))
    return replace(
        box,
        waiting=(*box.waiting, notice),
        since_s=at_s if box.since_s is None else box.since_s,
        told_at_s={**box.told_at_s, (notice.event, notice.subject): at_s},
    )


def due_s(box: Outbox, rules: GroupingRules) -> float | None:
    """Return when the waiting group is to be sent; None if nothing waits."""
    if box.since_s is None:
        return None
    return box.since_s if _is_urgent(box) else box.since_s + rules.group_for_s


def collect(box: Outbox, at_s: float, rules: GroupingRules, host: str) -> tuple[Outbox, Message | None]:
    """Return the waiting group as one message; None if nothing waits or too many messages were sent lately."""
    sent = tuple(sent_s for sent_s in box.sent_at_s if at_s - sent_s < rules.per_s)
    told = {key: told_s for key, told_s in box.told_at_s.items() if at_s - told_s < SAME_AGAIN_S}
    emptied = Outbox(sent_at_s=sent, told_at_s=told, left_out=box.left_out)
    if not box.waiting:
        return emptied, None
    if len(sent) >= rules.at_most and not _is_urgent(box):
        return replace(emptied, left_out=_counted(box.left_out, box.waiting)), None
    return replace(emptied, sent_at_s=(*sent, at_s), left_out=_NONE), _message(box, host)


def _is_urgent(box: Outbox) -> bool:
    return any(notice.event in _CANNOT_WAIT for notice in box.waiting)


def _counted(before: Mapping[NoticeEvent, int], notices: Iterable[Notice]) -> Mapping[NoticeEvent, int]:
    counts = dict(before)
    for notice in notices:
        counts[notice.event] = counts.get(notice.event, 0) + 1
    return counts


def _message(box: Outbox, host: str) -> Message:
    lines = [shortened(notice.text, _LONGEST_LINE) for notice in box.waiting]
    what = shortened(lines[0], 80) if len(lines) == 1 else f"{len(lines)} notices"
    if box.left_out:
        counts = ", ".join(f"{count} of {event}" for event, count in box.left_out.items())
        lines.append(f"Not sent before, because there were too many: {counts}.")
    return Message(printable(f"fallow on {host}: {what}"), "\n".join(lines))
