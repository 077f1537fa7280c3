"""Draw the last day of each GPU as a strip: one path for each activity, in steps of three minutes.

Steps begin at whole multiples of their length, so a strip changes once for each step, and its size has a bound: 64
strips are sent to every watcher whenever they change.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from itertools import groupby

from fallow.core.activity import Activity
from fallow.core.units import shortened
from fallow.core.value import value
from fallow.engine.history.reader import HistoryReader
from fallow.interfaces.render.charts import Stretch
from fallow.interfaces.render.report_text import hours_in_words

DAY_MS = 86_400_000
STEPS = 480
STEP_MS = DAY_MS // STEPS
_TICKS = 4


@value
class Strip:
    """The last day of one GPU, as paths in a box of `STEPS` by 1, and as text."""

    paths: tuple[tuple[Activity, str], ...]
    told: str


@value
class Strips:
    """The last day of all GPUs, by UUID, and the hours below the charts."""

    by_uuid: dict[str, Strip]
    ticks: tuple[str, ...]


def strips(past: HistoryReader, uuids: Iterable[str], now_ms: int, zone: tzinfo) -> Strips:
    """Return the last day of these GPUs, up to the step that is under way."""
    until_ms = (now_ms // STEP_MS + 1) * STEP_MS
    since_ms = until_ms - DAY_MS
    found = {}
    for uuid in uuids:
        stretches = past.colours(uuid, since_ms, now_ms, STEP_MS // 2)
        told = hours_in_words(((end - begin, activity) for begin, end, activity in stretches), "not watched yet")
        found[uuid] = Strip(paths(stretches, since_ms), shortened(told, 200))
    moments = [since_ms + DAY_MS * part // _TICKS for part in range(_TICKS)]
    ticks = [f"{datetime.fromtimestamp(at / 1000, UTC).astimezone(zone):%H:%M}" for at in moments]
    return Strips(found, (*ticks, "now"))


def paths(stretches: Iterable[Stretch], since_ms: int) -> tuple[tuple[Activity, str], ...]:
    """Return a path for each activity that occurs; each step has the one that took most of it."""
    drawn: dict[Activity, str] = {}
    at = 0
    for activity, run in groupby(_steps(stretches, since_ms)):
        width = len(list(run))
        if activity is not None:
            drawn[activity] = f"{drawn.get(activity, '')}M{at} 0h{width}v1h-{width}z"
        at += width
    return tuple((activity, drawn[activity]) for activity in Activity if activity in drawn)


def _steps(stretches: Iterable[Stretch], since_ms: int) -> list[Activity | None]:
    spent: list[dict[Activity, int]] = [{} for _ in range(STEPS)]
    for begin_ms, end_ms, activity in stretches:
        first, last = max(0, (begin_ms - since_ms) // STEP_MS), min(STEPS - 1, (end_ms - 1 - since_ms) // STEP_MS)
        for step in range(first, last + 1):
            step_ms = since_ms + step * STEP_MS
            within_ms = min(end_ms, step_ms + STEP_MS) - max(begin_ms, step_ms)
            spent[step][activity] = spent[step].get(activity, 0) + within_ms
    return [max(step, key=lambda each: step[each]) if step else None for step in spent]
