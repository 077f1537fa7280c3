"""Turn the steps of history into plots: paths, marks and texts, which a template draws.

A plot is 1000 wide and 100 high and is stretched; its texts are placed in per cent beside it, so that they stay
readable at any width. A line has a level for each step. Where nothing was read there is a gap: no zero, no bridge.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import pairwise

from fallow.core.activity import UNUSED, Activity
from fallow.core.interval import SOMEBODY
from fallow.core.money import Prices
from fallow.core.units import bytes_for_people, shortened
from fallow.core.value import replace, value
from fallow.engine.history.series import PlotSpan, Step
from fallow.interfaces.render.axes import time_ticks, value_text, value_ticks
from fallow.interfaces.render.charts import Box

WIDTH = 1000.0
HEIGHT = 100.0
_GIB = 2**30
_HOTTEST_C = 100.0
_USERS_TOLD = 3
_LONGEST_USER = 32
_MOST_TIMES = 6
_HOUR_MS = 3_600_000
_SEAM = 0.05
_LEAST_MONEY, _LEAST_GPUS = 0.04, 0.4
"""The shortest axes of the cost: a smaller amount is a low bar, and does not look like much."""
_WASTED = (Activity.IDLE, Activity.STUCK)
SPAN_WORDS = {"1h": "hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days"}


@value
class Mark:
    """A mark of an axis: where, in per cent from the left or from the top, and its text."""

    at: float
    text: str


@value
class Spot:
    """One step, for the pointer: where it is in per cent of the width, where its value is, and what it tells."""

    x: float
    width: float
    y: float | None
    text: str


@value
class Plot:
    """One plot."""

    name: str
    title: str
    told: str
    """The mean and the largest value, in words."""
    lines: tuple[str, ...]
    """The paths of the line, one for each stretch without a gap."""
    areas: tuple[str, ...]
    bars: tuple[Box, ...]
    values: tuple[Mark, ...]
    times: tuple[Mark, ...]
    spots: tuple[Spot, ...]


@value
class Scale:
    """The end of each axis where it is known from elsewhere: the memory and the power limit of the GPUs."""

    memory_bytes: float | None = None
    power_w: float | None = None


_NO_SCALE = Scale()


@value
class _Kind:
    name: str
    title: str
    of: Callable[[Step], float | None]
    most: float | None
    """The end of the axis; None for the largest value."""
    unit: float
    """What one of the axis is."""
    mark: str
    """What stands after a value of the axis."""
    told: Callable[[float], str]


@value
class _Frame:
    """What all plots of the same steps have in common."""

    times: tuple[Mark, ...]
    told: list[tuple[str, str]]
    """Of each step, when it was, and who held the GPUs."""


def plots(
    steps: Sequence[Step], span: PlotSpan, zone: tzinfo, prices: Prices, scale: Scale = _NO_SCALE
) -> tuple[Plot, ...]:
    """Return all plots of these steps."""
    if not steps:
        return ()
    kinds = (
        _Kind(
            "utilization", "Utilization", lambda one: one.utilization, 1.0, 0.01, " %", lambda share: f"{share:.0%}"
        ),
        _Kind("memory", "Memory", lambda one: one.memory_bytes, scale.memory_bytes, _GIB, " GiB", bytes_for_people),
        _Kind("power", "Power", lambda one: one.power_w, scale.power_w, 1.0, " W", lambda watts: f"{watts:.0f} W"),
        _Kind(
            "temperature",
            "Temperature",
            lambda one: one.temperature_c,
            _HOTTEST_C,
            1.0,
            " °C",
            lambda degrees: f"{degrees:.0f} °C",
        ),
    )
    frame = _Frame(_times(steps, span, zone), [(_when(one, span, zone), _who(one)) for one in steps])
    return (*(_line_plot(kind, steps, frame) for kind in kinds), _cost_plot(steps, frame, prices))


def _line_plot(kind: _Kind, steps: Sequence[Step], frame: _Frame) -> Plot:
    levels = [kind.of(one) for one in steps]
    known = [level for level in levels if level is not None]
    ticks = value_ticks(max([kind.most or 0.0, *known]) / kind.unit)
    top = ticks[-1] * kind.unit
    heights = [None if level is None else HEIGHT * (1 - max(0.0, level) / top) for level in levels]
    told = f"mean {kind.told(sum(known) / len(known))}, at most {kind.told(max(known))}" if known else "not known"
    texts = ["not known" if level is None else kind.told(level) for level in levels]
    paths = [_path(begin, some, len(steps)) for begin, some in _stretches(heights)]
    return Plot(
        name=kind.name,
        title=kind.title,
        told=told,
        lines=tuple(line for line, _ in paths),
        areas=tuple(area for _, area in paths),
        bars=(),
        values=_values(ticks, kind.mark),
        times=frame.times,
        spots=_spots(frame, heights, texts),
    )


def _cost_plot(steps: Sequence[Step], frame: _Frame, prices: Prices) -> Plot:
    """Return the columns of idle and stuck time: as money an hour where all of it has a price, else as GPUs."""
    priced = prices.given and not any(_wasted_ms(one) and one.cost is None for one in steps)
    heads = [_money_an_hour(one) if priced else _wasted_ms(one) / _watched_ms(one) for one in steps]
    least = _LEAST_MONEY if priced else _LEAST_GPUS
    ticks = value_ticks(max(least, *heads), 4) if any(heads) else (0.0, 1.0)
    bars: list[Box] = []
    width = WIDTH / len(steps)
    for number, (one, head) in enumerate(zip(steps, heads, strict=True)):
        y = HEIGHT
        for activity in _WASTED:
            ms = one.spent_ms.get(activity, 0)
            if ms:
                height = HEIGHT * head * ms / _wasted_ms(one) / ticks[-1]
                y -= height
                _add_bar(
                    bars, Box(round(number * width, 2), round(y, 2), round(width, 2), round(height, 2), activity)
                )
    seen = [one for one in steps if one.spent_ms]
    return Plot(
        name="cost",
        title=f"Cost of idle GPUs, {prices.currency} an hour".replace(",  an", ", an") if priced else "Idle GPUs",
        told=_cost_told(seen, prices, priced=priced),
        lines=(),
        areas=(),
        bars=tuple(bars),
        values=_values(ticks, ""),
        times=frame.times,
        spots=_spots(
            frame,
            [
                HEIGHT * (1 - head / ticks[-1]) if one.spent_ms else None
                for one, head in zip(steps, heads, strict=True)
            ],
            [_wasted_text(one, prices, priced=priced) for one in steps],
        ),
    )


def _add_bar(bars: list[Box], bar: Box) -> None:
    """Add a bar, or make the one before it wider if they differ in nothing else."""
    for at in range(len(bars) - 1, max(-1, len(bars) - 1 - len(_WASTED)), -1):
        last = bars[at]
        touches = abs(last.x + last.width - bar.x) < _SEAM
        if touches and (last.y, last.height, last.activity) == (bar.y, bar.height, bar.activity):
            bars[at] = replace(last, width=round(bar.x + bar.width - last.x, 2))
            return
    bars.append(bar)


def _per_cent(share: float) -> str:
    return f"{share:.0%}"


def _cost_told(seen: Sequence[Step], prices: Prices, *, priced: bool) -> str:
    if not seen:
        return "not known"
    if priced:
        return f"{prices.in_words(sum(one.cost or 0.0 for one in seen))} in all"
    wasted_ms = sum(map(_wasted_ms, seen))
    return f"{_hours(wasted_ms)} in all" if wasted_ms else "none"


def _wasted_text(one: Step, prices: Prices, *, priced: bool) -> str:
    if not one.spent_ms:
        return "not watched"
    wasted = [
        f"{_hours(one.spent_ms[activity])} {activity.value}" for activity in UNUSED if one.spent_ms.get(activity)
    ]
    told = ", ".join(wasted) or "nothing idle"
    return f"{prices.in_words(one.cost or 0.0)}: {told}" if priced else told


def _hours(ms: float) -> str:
    return f"{ms / _HOUR_MS:,.1f} h" if ms >= _HOUR_MS else f"{ms / 60_000:.0f} min" if ms >= 60_000 else "<1 min"


def _wasted_ms(one: Step) -> int:
    return sum(one.spent_ms.get(activity, 0) for activity in UNUSED)


def _watched_ms(one: Step) -> int:
    """Return how long a step was watched: of one that is under way, or in which nobody looked at first, only that."""
    length_ms = one.end_ms - one.begin_ms
    return min(one.watched_ms or length_ms, length_ms)


def _money_an_hour(one: Step) -> float:
    return (one.cost or 0.0) * _HOUR_MS / _watched_ms(one)


def _stretches(heights: Sequence[float | None]) -> list[tuple[int, list[float]]]:
    """Return the stretches without a gap: the number of their first step, and the height of each."""
    found: list[tuple[int, list[float]]] = []
    before: float | None = None
    for number, height in enumerate(heights):
        if height is not None:
            if before is None:
                found.append((number, []))
            found[-1][1].append(height)
        before = height
    return found


def _path(begin: int, heights: Sequence[float], number: int) -> tuple[str, str]:
    """Return a stretch as a line with a level for each step, and the area below it."""
    width = WIDTH / number
    words = [f"M{begin * width:.1f} {heights[0]:.1f}"]
    for at, (height, following) in enumerate(pairwise((*heights, heights[-1]))):
        if f"{height:.1f}" != f"{following:.1f}":
            words.append(f"H{(begin + at + 1) * width:.1f}V{following:.1f}")
    end = f"H{(begin + len(heights)) * width:.1f}"
    line = "".join((*words, end))
    return line, f"{line}V{HEIGHT:.0f}H{begin * width:.1f}Z"


def _values(ticks: Sequence[float], mark: str) -> tuple[Mark, ...]:
    step = ticks[1] - ticks[0]
    return tuple(Mark(round(HEIGHT * (1 - at / ticks[-1]), 2), value_text(at, step, mark)) for at in ticks)


def _times(steps: Sequence[Step], span: PlotSpan, zone: tzinfo) -> tuple[Mark, ...]:
    begin_ms, length_ms = steps[0].begin_ms, len(steps) * span.step_s * 1000
    ticks = time_ticks(begin_ms, begin_ms + length_ms, zone, _MOST_TIMES)
    return tuple(Mark(round(100 * (tick.at - begin_ms) / length_ms, 2), tick.text) for tick in ticks)


def _spots(frame: _Frame, heights: Sequence[float | None], texts: Sequence[str]) -> tuple[Spot, ...]:
    width = 100 / len(texts)
    return tuple(
        Spot(
            round(number * width, 3),
            round(width, 3),
            None if height is None else round(height, 1),
            f"{when}: {text}{who}",
        )
        for number, (height, text, (when, who)) in enumerate(zip(heights, texts, frame.told, strict=True))
    )


def _when(one: Step, span: PlotSpan, zone: tzinfo) -> str:
    begin, end = (
        datetime.fromtimestamp(at / 1000, UTC).astimezone(zone)
        for at in (one.begin_ms, one.begin_ms + span.step_s * 1000)
    )
    if span.step_s < 60:
        return f"{begin:%H:%M:%S}"
    return f"{begin.day} {begin:%b}, {begin:%H:%M} to {end:%H:%M}"


def _who(one: Step) -> str:
    if not one.users:
        return ""
    names = ["somebody" if user == SOMEBODY.user else shortened(user, _LONGEST_USER) for user in one.users]
    more = len(names) - _USERS_TOLD
    return f"; {', '.join(names[:_USERS_TOLD])}{f' and {more} more' if more > 0 else ''}"
