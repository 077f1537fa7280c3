"""Render a report as text: a table for people, JSON and CSV for programs."""

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

from fallow.core.activity import Activity
from fallow.core.api import VERSION
from fallow.core.interval import Card
from fallow.core.unknown import Unknown
from fallow.engine.history.report import Report
from fallow.interfaces.render.as_json import as_text, iso_time
from fallow.policies.cost import NAME_FIELDS, By, Line, first_lines

HEADS = {By.GPU: ("GPU", "name"), By.USER: ("user",), By.JOB: ("job", "user"), By.DAY: ("day",)}
_HOUR_MS = 3_600_000
_MOST_LINES = 100  # for people; programs get all of them


def hours(ms: int) -> str:
    """Return hours as `1,234.5`; a small amount is never shown as zero."""
    told = f"{ms / _HOUR_MS:,.1f}"
    return "<0.1" if ms and told == "0.0" else told


def hours_in_words(stretches: Iterable[tuple[int, Activity]], nothing: str) -> str:
    """Return how long each activity lasted, as `busy 3.1 h, idle 0.4 h`; stretches are milliseconds and activity."""
    spent = dict.fromkeys(Activity, 0)
    for ms, activity in stretches:
        spent[activity] += ms
    return ", ".join(f"{activity} {hours(ms)} h" for activity, ms in spent.items() if ms) or nothing


def span_in_words(report: Report) -> str:
    """Return a span as `2026-11-08 09:30 to 2026-11-15 09:30 CET`."""
    since, until = (
        datetime.fromtimestamp(at, UTC).astimezone(report.zone) for at in (report.since_s, report.until_s)
    )
    return f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} {until.tzname() or ''}".rstrip()


def machine_in_words(report: Report) -> str:
    """Return the machine as `box: 8 GPUs`, or as simulated."""
    cards = list(report.cards.values())
    if not cards:
        return "no GPU was watched"
    hosts = ", ".join(sorted({card.host for card in cards}))
    simulated = sum(card.simulated for card in cards)
    what = f"{len(cards)} {'simulated ' if simulated == len(cards) else ''}GPU{'' if len(cards) == 1 else 's'}"
    some = f", {simulated} of them simulated" if 0 < simulated < len(cards) else ""
    return f"{hosts}: {what}{some}"


def names_for_people(line: Line, by: By, cards: dict[str, Card]) -> list[str]:
    """Return the name of a line, one word for each heading."""
    if not line.name:
        return ["all", *[""] * (len(HEADS[by]) - 1)]
    if by is not By.GPU:
        return list(line.name)
    card = cards[line.name[0]]
    several = len({one.host for one in cards.values()}) > 1
    return [f"{card.host} {card.label}" if several else card.label, card.name]


def show_table(report: Report, by: By, file: TextIO | None) -> None:
    """Print the hours of each activity, the cost if there is a price, and the totals."""
    from fallow.interfaces.render.table import show_hours

    bill = report.bill(by)
    heads = [*HEADS[by], *(activity.value for activity in Activity), "observed"]
    rows: list[list[str]] = []
    for line in (*first_lines(bill, _MOST_LINES), bill.total):
        row = [*names_for_people(line, by, report.cards), *(hours(line.ms(activity)) for activity in Activity)]
        row.append(hours(line.observed_ms))
        if report.prices.given:
            row.append(cost_for_people(line, report))
        rows.append(row)
    if report.prices.given:
        heads.append("cost")
    title = f"{machine_in_words(report)}, hours from {span_in_words(report)}"
    show_hours(title, heads, rows, len(HEADS[by]), file)


def cost_for_people(line: Line, report: Report) -> str:
    """Return an amount of money, or `?`."""
    return "?" if isinstance(line.cost, Unknown) else report.prices.in_words(line.cost)


def as_json(report: Report, by: By) -> str:
    """Return the report as one JSON object, with times in seconds to the millisecond."""
    return f"{as_text(facts_of(report, by))}\n"


def facts_of(report: Report, by: By) -> dict[str, Any]:
    """Return the values of the JSON."""
    bill = report.bill(by)
    prices = {card.uuid: report.prices.of(card) for card in report.cards.values()}
    gpus = [
        {
            "gpu": card.label,
            **{name: getattr(card, name) for name in ("uuid", "name", "host", "simulated")},
            "price_per_hour": None if isinstance(price := prices[card.uuid], Unknown) else price,
        }
        for card in report.cards.values()
    ]
    return {
        "version": VERSION,
        "since": iso_time(report.since_s),
        "until": iso_time(report.until_s),
        "by": by.value,
        "currency": report.prices.currency or None,
        "gpus": gpus,
        "lines": [_facts(line, by, report.cards) for line in bill.lines],
        "total": _facts(bill.total, by, report.cards),
    }


def as_csv(report: Report, by: By) -> str:
    """Return a heading and a row for each line, with the fields of the JSON; unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    times = [f"{activity.value}_s" for activity in Activity]
    fields = [*NAME_FIELDS[by], "observed_s", *times, "cost"]
    writer.writerow(fields)
    for line in report.bill(by).lines:
        facts = _facts(line, by, report.cards)
        writer.writerow([csv_cell(facts[field]) for field in fields])
    return text.getvalue()


def _facts(line: Line, by: By, cards: dict[str, Card]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if line.name and by is By.GPU:
        card = cards[line.name[0]]
        facts.update(zip(NAME_FIELDS[by], (card.label, card.uuid, card.name), strict=True))
    elif line.name:
        facts.update(zip(NAME_FIELDS[by], line.name, strict=True))
    facts["observed_s"] = line.observed_ms / 1000
    facts.update((f"{activity.value}_s", line.ms(activity) / 1000) for activity in Activity)
    known = not isinstance(line.cost, Unknown)
    facts["cost"] = round(line.cost, 6) if not isinstance(line.cost, Unknown) else None
    facts["unknown"] = {} if known else {"cost": str(line.cost)}
    return facts


def csv_cell(fact: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: other users wrote the commands in it."""
    if isinstance(fact, str) and fact not in ("", "-") and fact[0] in "=+-@":
        return f"'{fact}"
    return "" if fact is None else fact
