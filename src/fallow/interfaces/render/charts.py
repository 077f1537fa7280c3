"""Compute the rectangles and the axes of a report's charts; the template draws them.

Every chart is 1000 wide and is stretched to the width of the page. Text stands beside it, not in it, so that it
stays readable at any width; the marks of an axis say where they are in per cent.
"""

from collections.abc import Iterable, Sequence
from datetime import tzinfo

from fallow.core.activity import Activity
from fallow.core.value import value
from fallow.interfaces.render.axes import time_ticks, value_text, value_ticks
from fallow.policies.cost import Line

WIDTH = 1000.0
HEIGHT = 100.0
_THINNEST = 0.5  # whatever exists is visible
_EDGE = 4.0
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
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


@value
class Mark:
    """A mark of an axis."""

    percent: float
    text: str

    @property
    def anchor(self) -> str:
        """Return which end of the text is at the mark, so that nothing sticks out."""
        return "start" if self.percent < _EDGE else "end" if self.percent > 100 - _EDGE else "middle"


@value
class Axis:
    """An axis: its length in milliseconds, and its marks."""

    whole_ms: int
    marks: tuple[Mark, ...]


def spent_axis(most_ms: int) -> Axis:
    """Return an axis for amounts of time, in hours or minutes, that ends at a round value."""
    unit_ms, unit = (_HOUR_MS, "h") if most_ms >= _HOUR_MS else (_MINUTE_MS, "m")
    values = value_ticks(max(1, most_ms) / unit_ms)
    step = values[1] - values[0]
    marks = (Mark(round(100 * each / values[-1], 2), value_text(each, step, unit)) for each in values)
    return Axis(round(values[-1] * unit_ms), tuple(marks))


def time_axis(begin_ms: int, end_ms: int, zone: tzinfo) -> Axis:
    """Return an axis for moments."""
    whole_ms = max(1, end_ms - begin_ms)
    ticks = time_ticks(begin_ms, end_ms, zone)
    return Axis(whole_ms, tuple(Mark(round(100 * (tick.at - begin_ms) / whole_ms, 2), tick.text) for tick in ticks))


def names_axis(names: Sequence[str], most: int = 8) -> Axis:
    """Return an axis for columns: the names of some of them, each below the middle of its column."""
    every = -(-len(names) // most)
    marks = (Mark(round(100 * (at + 0.5) / len(names), 2), name) for at, name in enumerate(names) if at % every == 0)
    return Axis(len(names), tuple(marks))


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
