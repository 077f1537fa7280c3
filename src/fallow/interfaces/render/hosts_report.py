"""Render the hours of several hosts, added up: a table for people, and CSV for programs."""

import csv
import io
from datetime import datetime
from typing import Any

from fallow.core.activity import Activity
from fallow.core.money import Prices
from fallow.core.units import shortened
from fallow.engine.remote.report import HOST, TIMES, name_fields
from fallow.interfaces.render.report_text import csv_cell, time_spent
from fallow.policies.cost import By

Facts = dict[str, Any]
_LONGEST = 60
_COLUMNS: dict[str, tuple[str, ...]] = {
    HOST: ("host",),
    By.GPU: ("host", "gpu", "name"),
    By.USER: ("user", "hosts"),
    By.JOB: ("job", "user", "hosts"),
    By.DAY: ("day", "hosts"),
    By.WEEK: ("week", "hosts"),
}


def show_table(found: Facts) -> None:
    """Print the hours of each line, what they cost, and the whole."""
    from fallow.interfaces.render.table import show_hours

    names = _COLUMNS[found["by"]]
    heads = [*names, *(activity.value for activity in Activity), "observed", "cost"]
    rows = [_row([_cell(line[name]) for name in names], line, found) for line in found["lines"]]
    total = _row(["all", *[""] * (len(names) - 1)], found["total"], found)
    since, until = (datetime.fromisoformat(found[end]) for end in ("since", "until"))
    answered = sum(host["error"] is None for host in found["hosts"])
    title = f"{answered} of {len(found['hosts'])} hosts, {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    show_hours(title, heads, [*rows, total], len(names))


def as_csv(found: Facts) -> str:
    """Return a heading and a row for each line, with the columns of the CSV of one host; unknown values are empty.

    By host, the host is the name of the line and comes first.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = (*name_fields(found["by"]), *TIMES, "energy_j", "metered_s", "cost")
    about = ("currency", "since", "until")
    hosts = () if "host" in fields else ("host",)
    writer.writerow([*fields, *about, *hosts])
    for line in found["lines"]:
        cells = [*(line[field] for field in fields), *(found[name] for name in about)]
        cells += [", ".join(line["hosts"]) for _ in hosts]
        writer.writerow([csv_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(fact: object) -> str:
    return shortened(", ".join(map(str, fact)) if isinstance(fact, list) else str(fact), _LONGEST)


def _row(names: list[str], line: Facts, found: Facts) -> list[str]:
    spent = (time_spent(round(line[f"{activity.value}_s"] * 1000)) for activity in Activity)
    prices = Prices(currency=found["currency"] or "")
    cost = "?" if line["cost"] is None else prices.in_words(line["cost"])
    return [*names, *spent, time_spent(round(line["observed_s"] * 1000)), cost]
