"""Render a report as one HTML page that is complete: no script, no other file, nothing from the network."""

from datetime import UTC, datetime
from typing import Any

from fallow.core.activity import UNUSED, Activity
from fallow.engine.history.report import Report
from fallow.interfaces.render import charts
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.render.report_text import (
    HEADS,
    cost_for_people,
    hours,
    hours_in_words,
    machine_in_words,
    names_for_people,
    span_in_words,
)
from fallow.policies.cost import By, Line, first_lines

_MOST_LINES = 40
_MOST_BARS = 12
_TITLES = {By.GPU: "By GPU", By.DAY: "By day", By.USER: "By user", By.JOB: "By job"}


def as_html(report: Report, first: By) -> str:
    """Return the page; the requested section comes first."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("fallow.interfaces.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    order = sorted((By.GPU, By.DAY, By.USER, By.JOB), key=lambda by: by is not first)
    total = report.bill(By.GPU).total
    return templates.get_template("report.html").render(
        machine=machine_in_words(report),
        span=span_in_words(report),
        activities=list(Activity),
        looks=LOOKS,
        tiles=_tiles(report, total),
        strips=_strips(report),
        sections=[_section(report, by) for by in order],
        has_price=report.prices.given,
        nothing=not report.intervals,
        width=charts.WIDTH,
        height=charts.HEIGHT,
    )


def _tiles(report: Report, total: Line) -> list[tuple[str, str]]:
    wasted_ms = total.idle_ms + total.stuck_ms
    tiles = [
        ("GPU hours observed", hours(total.observed_ms)),
        ("busy", _share(total.busy_ms, total.observed_ms)),
        ("free", _share(total.free_ms, total.observed_ms)),
        ("filled", _share(total.filled_ms, total.observed_ms)),
        (f"idle or stuck, {hours(wasted_ms)} h", _share(wasted_ms, total.observed_ms)),
    ]
    if report.prices.given:
        tiles.append(("cost of idle and stuck hours", cost_for_people(total, report)))
    return tiles


def _share(part_ms: int, whole_ms: int) -> str:
    return f"{part_ms / whole_ms:.1%}" if whole_ms else "-"


def _strips(report: Report) -> dict[str, Any]:
    begin_ms, end_ms = report.last_day_ms
    moments = [begin_ms + (end_ms - begin_ms) * part // 4 for part in range(5)]
    ticks = [datetime.fromtimestamp(at / 1000, UTC).astimezone(report.zone) for at in moments]
    rows = []
    for card, stretches in report.strips():
        told = hours_in_words(((last - first, activity) for first, last, activity in stretches), "nobody watched")
        rows.append({"label": card.label, "boxes": charts.strip(stretches, begin_ms, end_ms), "told": told})
    return {"rows": rows, "ticks": [f"{tick:%H:%M}" for tick in ticks]}


def _section(report: Report, by: By) -> dict[str, Any]:
    bill = report.bill(by)
    lines = first_lines(bill, _MOST_LINES)
    rows = [_row(report, by, line) for line in lines]
    section: dict[str, Any] = {
        "id": by.value,
        "title": _TITLES[by],
        "heads": HEADS[by],
        "rows": rows,
        "total": _row(report, by, bill.total),
        "columns": None,
        "bars": [],
    }
    most_ms = max((line.observed_ms for line in bill.lines), default=0)
    match by:
        case By.DAY:
            section["columns"] = charts.columns(bill.lines, most_ms)
            section["what"] = f"Hours of each day, {hours(most_ms)} at most; what costs is on top."
        case By.GPU:
            section["bars"] = [(row, charts.bar(line, most_ms)) for row, line in zip(rows, lines, strict=True)]
            section["what"] = "Hours of each GPU; what costs is at the end."
        case By.USER | By.JOB:
            shown = [line for line in bill.lines[:_MOST_BARS] if line.idle_ms + line.stuck_ms]
            most_ms = max((line.idle_ms + line.stuck_ms for line in shown), default=0)
            section["bars"] = [(_row(report, by, line), charts.bar(line, most_ms, UNUSED)) for line in shown]
            section["what"] = f"Idle and stuck hours by {by}, {hours(most_ms)} at most; the most of them first."
    return section


def _row(report: Report, by: By, line: Line) -> dict[str, Any]:
    return {
        "names": names_for_people(line, by, report.cards),
        "hours": [hours(line.ms(activity)) for activity in Activity],
        "observed": hours(line.observed_ms),
        "cost": cost_for_people(line, report),
    }
