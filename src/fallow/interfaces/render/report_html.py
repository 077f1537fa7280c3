"""Render a report as one HTML page that is complete: no script, no other file, nothing from the network."""

from datetime import date
from typing import Any

from fallow.core.activity import UNUSED, Activity
from fallow.core.units import duration_for_people
from fallow.engine.history.report import Report
from fallow.interfaces.render import charts
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.render.report_text import (
    HEADS,
    WEEKDAYS,
    cost_for_people,
    energy_for_people,
    footnotes,
    hours_in_words,
    local_time,
    machine_in_words,
    names_for_people,
    share_in_words,
    span_in_words,
    time_spent,
)
from fallow.policies.cost import By, Line, first_lines

_MOST_LINES = 40
_MOST_BARS = 12
_DAY_S = 86_400
_TITLES = {
    By.GPU: "By GPU",
    By.DAY: "By day",
    By.WEEK: "By week",
    By.USER: "By user",
    By.JOB: "By job",
}


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
    order = sorted(_TITLES, key=lambda by: by is not first)
    total = report.bill(By.GPU).total
    return templates.get_template("report.html").render(
        machine=machine_in_words(report),
        span=span_in_words(report),
        activities=list(Activity),
        looks=LOOKS,
        tiles=_tiles(report, total),
        strips=_strips(report),
        heat=_heat(report),
        sections=[_section(report, by) for by in order],
        has_price=report.prices.given,
        has_energy=bool(total.metered_ms),
        nothing=not report.intervals,
        footnotes=footnotes(report, *order),
        width=charts.WIDTH,
        height=charts.HEIGHT,
    )


def _tiles(report: Report, total: Line) -> list[tuple[str, str]]:
    wasted_ms = total.idle_ms + total.stuck_ms
    tiles = [
        (f"of the time observed, {time_spent(total.observed_ms)} of GPUs", share_in_words(report.observed_share)),
        ("busy", _share(total.busy_ms, total.observed_ms)),
        ("free", _share(total.free_ms, total.observed_ms)),
        ("filled", _share(total.filled_ms, total.observed_ms)),
        (f"idle or stuck, {time_spent(wasted_ms)}", _share(wasted_ms, total.observed_ms)),
        ("energy", f"{energy_for_people(total)} kWh" if total.metered_ms else "unknown"),
    ]
    if report.prices.given:
        tiles.append(("cost of idle and stuck hours", cost_for_people(total, report)))
    return tiles


def _share(part_ms: int, whole_ms: int) -> str:
    return f"{part_ms / whole_ms:.1%}" if whole_ms else "-"


def _strips(report: Report) -> dict[str, Any]:
    begin_ms, end_ms = report.last_day_ms
    rows = []
    for card, stretches in report.strips():
        told = hours_in_words(((last - first, activity) for first, last, activity in stretches), "nobody watched")
        rows.append({"label": card.label, "boxes": charts.strip(stretches, begin_ms, end_ms), "told": told})
    span_s = round((end_ms - begin_ms) / 1000)
    length = "day" if span_s == _DAY_S else duration_for_people(span_s)
    title = f"The last {length}, up to {local_time(report.until_s, report):%Y-%m-%d %H:%M}"
    return {"rows": rows, "axis": charts.time_axis(begin_ms, end_ms, report.zone), "title": title}


def _heat(report: Report) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return a row for each weekday, with a cell for each hour; a cell that was not watched has no level."""
    found = report.hours_of_week
    rows = []
    for weekday, name in enumerate(WEEKDAYS):
        cells: list[dict[str, Any]] = []
        for hour in range(24):
            one = found.get((weekday, hour))
            if one is None:
                cells.append({"level": None, "text": "", "title": f"{name} {hour:02d}:00: nobody watched"})
                continue
            told = hours_in_words(((ms, activity) for activity, ms in one.ms), "nothing")
            title = f"{name} {hour:02d}:00: {one.unused_share:.0%} idle or stuck ({told})"
            level = round(one.unused_share * 10)
            cells.append({"level": level, "text": f"{one.unused_share * 100:.0f}", "title": title})
        rows.append((name, cells))
    return rows if found else []


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
    axis = charts.spent_axis(max((line.observed_ms for line in bill.lines), default=0))
    match by:
        case By.DAY | By.WEEK:
            section["columns"] = charts.columns(bill.lines, axis.whole_ms)
            section["names"] = charts.names_axis([_short_date(line.name[0]) for line in bill.lines])
            section["what"] = f"GPU hours of each {by}; idle and stuck ones are on top."
        case By.GPU:
            section["bars"] = [
                (row, charts.bar(line, axis.whole_ms), time_spent(line.observed_ms))
                for row, line in zip(rows, lines, strict=True)
            ]
            section["what"] = "Hours of each GPU; idle and stuck ones are at the end."
        case By.USER | By.JOB:
            shown = [line for line in bill.lines[:_MOST_BARS] if line.idle_ms + line.stuck_ms]
            axis = charts.spent_axis(max((line.idle_ms + line.stuck_ms for line in shown), default=0))
            section["bars"] = [
                (
                    _row(report, by, line),
                    charts.bar(line, axis.whole_ms, UNUSED),
                    time_spent(line.idle_ms + line.stuck_ms),
                )
                for line in shown
            ]
            section["what"] = f"Idle and stuck hours by {by}, the most of them first."
    section["axis"] = axis
    return section


def _short_date(day: str) -> str:
    found = date.fromisoformat(day)
    return f"{found.day} {found:%b}"


def _row(report: Report, by: By, line: Line) -> dict[str, Any]:
    return {
        "names": names_for_people(line, by, report.cards),
        "hours": [time_spent(line.ms(activity)) for activity in Activity],
        "observed": time_spent(line.observed_ms),
        "energy": energy_for_people(line),
        "cost": cost_for_people(line, report),
    }
