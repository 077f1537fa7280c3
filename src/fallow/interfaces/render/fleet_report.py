"""Render the hours of all hosts of a fleet, as the daemon that asks them told: a table, and CSV for programs."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime

from fallow.core.activity import Activity
from fallow.core.fleet import FleetBy
from fallow.core.units import shortened
from fallow.engine.machine.daemon_client import Facts
from fallow.interfaces.render.report_text import csv_cell, hours
from fallow.policies.cost import NAME_FIELDS, By

_LONGEST = 60
_COLUMNS: dict[FleetBy, tuple[str, ...]] = {
    "host": ("host",),
    "gpu": ("host", "gpu", "name"),
    "user": ("user", "hosts"),
    "job": ("job", "user", "hosts"),
    "day": ("day", "hosts"),
}
_TIMES = ("observed_s", *(f"{activity.value}_s" for activity in Activity))


def show_table(found: Facts, by: FleetBy) -> None:
    """Print the hours of each line, what they cost, and the whole."""
    from fallow.interfaces.render.table import show_hours

    names = _COLUMNS[by]
    heads = [*names, "observed", *(activity.value for activity in Activity), "cost of idle and stuck"]
    rows = [_row(line, [_cell(line[name]) for name in names], found["currency"]) for line in found["lines"]]
    total = _row(found["total"], ["total", *[""] * (len(names) - 1)], found["currency"])
    since, until = (datetime.fromisoformat(found[end]).astimezone(UTC) for end in ("since", "until"))
    title = f"hours from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    show_hours(title, heads, [*rows, total], len(names))


def as_csv(found: Facts, by: FleetBy) -> str:
    """Return a heading and a row for each line, with the columns of the CSV of one host; unknown values are empty.

    By host, the host is the name of the line and comes first.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("host",) if by == "host" else NAME_FIELDS[By(by)]
    fields = (*names, *_TIMES, "energy_j", "metered_s", "cost")
    hosts = () if by == "host" else ("host",)
    writer.writerow([*fields, "currency", "since", "until", *hosts])
    about = [found[name] for name in ("currency", "since", "until")]
    for line in found["lines"]:
        told = [*(line[field] for field in fields), *about, *(", ".join(line["hosts"]) for _ in hosts)]
        writer.writerow([csv_cell(fact) for fact in told])
    return text.getvalue()


def _cell(fact: object) -> str:
    return shortened(", ".join(map(str, fact)) if isinstance(fact, list) else str(fact), _LONGEST)


def _row(line: Facts, names: Sequence[str], currency: str | None) -> list[str]:
    told = [hours(round(line[part] * 1000)) for part in _TIMES]
    cost = "?" if line["cost"] is None else f"{line['cost']:.2f} {currency or ''}".strip()
    return [*names, *told, cost]
