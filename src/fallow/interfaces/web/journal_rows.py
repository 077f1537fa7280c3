"""The journal as rows for people: all that one stop consists of is one row, which opens.

A job is found idle, warned, asked, killed, and gone: the journal has a line for each, and the row has them all with
their times. It begins with the first line about the job and ends when the job is gone or the warning is cancelled.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

from fallow.core.findings import Event, gpu_key
from fallow.core.units import shortened
from fallow.interfaces.web import dashboard
from fallow.interfaces.web.view_models import Timer, View, coarsely

_LAST = frozenset(("stopped", "cancel_warning"))
_WORDS = {
    "warn": "warned",
    "cancel_warning": "warning cancelled",
    "ask": "asked to end",
    "kill": "killed",
    "stopped": "stopped",
    "park": "parked",
    "wake": "woken",
}
_GPU = gpu_key("")
_ROWS_SHOWN = 20
_LINES_SHOWN = 30
_LONGEST_REASON = 240
_LONGEST_SUBJECT = 96


def journal_rows(found: Sequence[Event], now_s: float, zone: tzinfo) -> list[View]:
    """Return the rows, the newest first. `found` are the last lines of the journal, the newest first."""
    rows = [_row(lines, now_s, zone) for lines in _stops(reversed(found))]
    return sorted(rows, key=lambda row: -row["number"])[:_ROWS_SHOWN]


def _stops(found: Iterable[Event]) -> list[list[Event]]:
    """Return the lines of each stop together, and every other line alone; each in the order of time."""
    going: dict[str, list[Event]] = {}
    over: list[list[Event]] = []
    for event in found:
        lines = going.setdefault(event.subject, [])
        lines.append(event)
        if event.step in _LAST:
            over.append(going.pop(event.subject))
    for lines in going.values():
        over += [lines] if any(event.step for event in lines) else [[event] for event in lines]
    return over


def _row(lines: Sequence[Event], now_s: float, zone: tzinfo) -> View:
    last = lines[-1]
    steps = [event.step for event in lines if event.step]
    is_stop = len(lines) > 1
    why = _decisive(lines) if is_stop else last
    before = list(dict.fromkeys(_WORDS.get(step, step) for step in steps[:-1] if step != steps[-1]))
    return {
        "number": last.id,
        "id": f"stop-{lines[0].id}",
        "ago": Timer(f"event-{last.id}", f"{coarsely(max(0.0, now_s - last.wall_s))} ago"),
        "at": _time(last, zone, "%Y-%m-%d %H:%M:%S"),
        "iso": _time(last, UTC, "%Y-%m-%dT%H:%M:%SZ"),
        "kind": "" if is_stop else last.kind,
        "what": _WORDS.get(steps[-1], steps[-1]) if is_stop else shortened(last.finding, _LONGEST_REASON),
        "before": ", ".join(before) if is_stop else "",
        "subject": shortened(last.subject, _LONGEST_SUBJECT),
        "because": shortened(why.because, _LONGEST_REASON),
        "rule": shortened(next((event.rule for event in (why, *lines) if event.rule), ""), _LONGEST_SUBJECT),
        "is_cancelled": last.step == "cancel_warning",
        "address": dashboard.job_address_of(last.keys),
        "gpus": tuple(key.removeprefix(_GPU) for key in last.keys if key.startswith(_GPU)),
        "user": next((event.job_user for event in reversed(lines) if event.job_user), ""),
        "lines": [_line(event, zone) for event in lines[-_LINES_SHOWN:]] if is_stop else [],
    }


def _decisive(lines: Sequence[Event]) -> Event:
    """Return the line with the reason of it all: a job that was warned for one reason may be stopped for another."""
    if lines[-1].step == "cancel_warning":
        return lines[-1]
    for step in ("ask", "park", "kill", "warn"):
        for event in reversed(lines):
            if event.step == step:
                return event
    return next((event for event in lines if event.step), lines[0])


def _line(event: Event, zone: tzinfo) -> View:
    return {
        "at": _time(event, zone, "%H:%M:%S"),
        "iso": _time(event, UTC, "%Y-%m-%dT%H:%M:%SZ"),
        "kind": event.kind,
        "finding": shortened(event.finding, _LONGEST_REASON),
        "because": shortened(event.because, _LONGEST_REASON),
    }


def _time(event: Event, zone: tzinfo, form: str) -> str:
    return datetime.fromtimestamp(event.wall_s, UTC).astimezone(zone).strftime(form)
