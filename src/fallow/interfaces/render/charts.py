"""Compute the rectangles of a report's charts; the template draws them.

Every chart is 1000 wide and is stretched to the width of the page. Text stands beside it, not in it, so that it
stays readable at any width.
"""

from collections.abc import Iterable, Sequence

from fallow.core.activity import Activity
from fallow.core.value import value
from fallow.policies.cost import Line

WIDTH = 1000.0
HEIGHT = 100.0
_THINNEST = 0.5  # whatever exists is visible
_STACKED = (Activity.BUSY, Activity.FILLED, Activity.FREE, Activity.UNKNOWN, Activity.IDLE, Activity.STUCK)
"""The order of activities: wanted time first and wasted time last, so that waste is at one edge."""


Stretch = tuple[int, int, Activity]
"""Begin and end in milliseconds, and the activity."""


@value
class Box:
    """A rectangle of one activity."""

    x: float
    y: float
    width: float
    height: float
    activity: Activity


def strip(stretches: Iterable[Stretch], begin_ms: int, end_ms: int) -> list[Box]:
    """Return what one GPU did, from left to right, with gaps where it was not observed."""
    scale = WIDTH / max(1, end_ms - begin_ms)
    boxes: list[Box] = []
    for stretch_begin_ms, stretch_end_ms, activity in stretches:
        x = (stretch_begin_ms - begin_ms) * scale
        width = max(_THINNEST, (stretch_end_ms - stretch_begin_ms) * scale)
        boxes.append(_box(x, 0.0, width, HEIGHT, activity))
    return boxes


def bar(line: Line, most_ms: int, only: Sequence[Activity] = _STACKED) -> list[Box]:
    """Return the time of one line, from left to right, relative to the longest."""
    boxes: list[Box] = []
    x = 0.0
    for activity in only:
        width = WIDTH * line.ms(activity) / max(1, most_ms)
        if width > 0:
            boxes.append(_box(x, 0.0, width, HEIGHT, activity))
        x += width
    return boxes


def columns(lines: Sequence[Line], most_ms: int) -> list[Box]:
    """Return a column for each line, with wasted time on top."""
    boxes: list[Box] = []
    step = WIDTH / max(1, len(lines))
    for number, line in enumerate(lines):
        y = HEIGHT
        for activity in _STACKED:
            height = HEIGHT * line.ms(activity) / max(1, most_ms)
            y -= height
            if height > 0:
                boxes.append(_box((number + 0.1) * step, y, 0.8 * step, height, activity))
    return boxes


def _box(x: float, y: float, width: float, height: float, activity: Activity) -> Box:
    return Box(round(x, 2), round(y, 2), round(width, 2), round(height, 2), activity)
