"""Render a report as text: a table for people and JSON and CSV for programs.

Time is told in hours (`12.5h`), and below one hour in minutes (`45m`); what is there is never told as nothing.
"""

import csv
import io
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from fallow.core.activity import Activity
from fallow.core.api import VERSION
from fallow.core.interval import NOBODY, SOMEBODY, Card
from fallow.core.unknown import Unknown
from fallow.core.version import __version__
from fallow.engine.history.report import Report
from fallow.interfaces.render.as_json import as_text, iso_time, with_reasons
from fallow.policies.cost import NAME_FIELDS, By, Line, first_lines
from fallow.policies.watched import QUARTER_MS

HEADS = {
    By.GPU: ("GPU", "name"),
    By.USER: ("user",),
    By.JOB: ("job", "user"),
    By.DAY: ("day",),
    By.WEEK: ("week from",),
}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_FORMULA = re.compile('(^|;)(["\\s]*[=+@＝＋－＠-])')
_MANY_HOURS = 1000
_MJ_PER_KWH = 3_600_000_000
_RARE = (Activity.FILLED, Activity.STUCK, Activity.UNKNOWN)
"""Activities whose column is left out where none of it was seen."""
_BEFORE_HOURS = " " * 6
_GAPS_TOLD, _MOST_GAPS = 3, 100
_DAY_S = 86_400.0
_MOST_LINES = 100  # for people; programs get all of them
_ABOUT = ("since", "until", "host")
"""What each row of a CSV tells of the report, so that rows of several can be put together."""


def hours(ms: int) -> str:
    """Return hours as `1,234.5`; a small amount is never shown as zero."""
    told = f"{ms / _HOUR_MS:,.1f}"
    return "<0.1" if ms and told == "0.0" else told


def time_spent(ms: int) -> str:
    """Return `0`, `<1m`, `45m`, `12.5h`, `1,234h`."""
    if not ms:
        return "0"
    if ms < _MINUTE_MS:
        return "<1m"
    minutes = round(ms / _MINUTE_MS)
    if minutes < 60:
        return f"{minutes}m"
    return f"{ms / _HOUR_MS:,.0f}h" if ms >= _MANY_HOURS * _HOUR_MS else f"{ms / _HOUR_MS:.1f}h"


def energy_for_people(line: Line) -> str:
    """Return kilowatt-hours as `12.3`; `>12.3` where some of the time was not metered, `?` where none was."""
    if not line.metered_ms:
        return "?" if line.observed_ms else "0"
    kwh = line.energy_mj / _MJ_PER_KWH
    told = f"{kwh:,.0f}" if kwh >= 100 else f"{kwh:.1f}" if kwh >= 1 else f"{kwh:.2f}"
    if told == "0.00" and line.energy_mj:
        return "<0.01"
    return f">{told}" if line.energy_is_partial else told


def hours_in_words(stretches: Iterable[tuple[int, Activity]], nothing: str) -> str:
    """Return how long each activity lasted, as `busy 3.1h, idle 24m`; stretches are milliseconds and activity."""
    spent = dict.fromkeys(Activity, 0)
    for ms, activity in stretches:
        spent[activity] += ms
    return ", ".join(f"{activity} {time_spent(ms)}" for activity, ms in spent.items() if ms) or nothing


def span_in_words(report: Report) -> str:
    """Return a span as `2026-11-08 09:30 to 2026-11-15 09:30 CET`."""
    since, until = local_time(report.since_s, report), local_time(report.until_s, report)
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


def show_table(report: Report, by: By) -> None:
    """Print the time of each activity, energy and cost where they are known, the totals, and how it was made."""
    from fallow.interfaces.render.table import note_width, show_hours

    bill = report.bill(by)
    models = {card.name for card in report.cards.values()}
    words = 1 if by is By.GPU and len(models) == 1 else len(HEADS[by])  # one model for all is in the title
    shown = [each for each in Activity if each not in _RARE or bill.total.ms(each)]
    heads = [*HEADS[by][:words], *(activity.value for activity in shown), "observed"]
    heads += ["kWh"] * bool(bill.total.metered_ms) + ["cost"] * report.prices.given
    rows: list[list[str]] = []
    for line in (*first_lines(bill, _MOST_LINES), bill.total):
        row = [
            *names_for_people(line, by, report.cards)[:words],
            *(time_spent(line.ms(activity)) for activity in shown),
        ]
        row.append(time_spent(line.observed_ms))
        if bill.total.metered_ms:
            row.append(energy_for_people(line))
        if report.prices.given:
            row.append(cost_for_people(line, report))
        rows.append(row)
    what = f" ({models.pop()})" if len(models) == 1 else ""
    title = f"{machine_in_words(report)}{what}, {span_in_words(report)}"
    notes = ["", *heat_lines(report, note_width()), *footnotes(report, by)]
    show_hours(title, heads, rows, words, notes)


def heat_lines(report: Report, width: int) -> list[str]:
    """Return the share of idle and stuck time by weekday and hour, in tenths; nothing for less than two days.

    The hours stand as far apart as the width allows.
    """
    found = report.hours_of_week
    if report.until_s - report.since_s < 2 * _DAY_S or not found:
        return []
    lines = ["idle and stuck by hour of local time: 0 none, 5 half, * all, . not watched"]
    between = " " * min(2, max(0, (width - len(_BEFORE_HOURS) - 24) // 23))
    every = 3 * len(f"0{between}")
    lines.append(f"{_BEFORE_HOURS[1:]}{''.join(f'{hour:02d}'.ljust(every) for hour in range(0, 24, 3))}".rstrip())
    for weekday, name in enumerate(WEEKDAYS):
        marks = [found.get((weekday, hour)) for hour in range(24)]
        told = between.join("." if one is None else _tenths(one.unused_share) for one in marks)
        lines.append(f"{name.ljust(len(_BEFORE_HOURS))}{told}")
    return [*lines, ""]


def _tenths(share: float) -> str:
    tenths = round(share * 10)
    return "*" if tenths > 9 else str(tenths)


def footnotes(report: Report, *tables: By) -> list[str]:
    """Return who `-` is in these tables, how much was watched, how energy is known, how weeks compare, its making."""
    total = report.bill(By.GPU).total
    told = [*_nobody_in_words(report, tables)]
    told += [f"Observed: {share_in_words(report.observed_share)} of the time of these GPUs{_gaps_in_words(report)}."]
    if total.metered_ms:
        known = total.metered_ms / max(1, total.observed_ms)
        told.append(f"Energy: by the power, for {share_in_words(known)} of the time observed; > is at least.")
    else:
        told.append("Energy: unknown, because no power was read in that time.")
    weeks = report.bill(By.WEEK).lines
    if len(weeks) > 1:
        shares = (f"{line.name[0]} {share_in_words(_wasted(line) / max(1, line.observed_ms))}" for line in weeks[-8:])
        told.append(f"Idle and stuck by week from Monday: {', '.join(shares)}.")
    return [*told, made_in_words(report)]


def _nobody_in_words(report: Report, tables: Iterable[By]) -> list[str]:
    """Return what the lines without a user are, if there are any."""
    users = {line.name[-1] for by in tables if by in (By.USER, By.JOB) for line in report.bill(by).lines}
    told = {
        NOBODY.user: "-: hours that belong to nobody, because the GPU was free or filled; they cost nothing.",
        SOMEBODY.user: "?: hours of an unknown user, whose process could not be seen, or whose GPU did not answer.",
    }
    return [sentence for user, sentence in told.items() if user in users]


def made_in_words(report: Report) -> str:
    """Return which fallow made the report, where, when, from what and how finely."""
    at = local_time(report.made_s, report)
    return (
        f"Made by fallow {__version__} on {report.host}, {at:%Y-%m-%d %H:%M} {at.tzname() or ''}".rstrip()
        + f", from {report.source}; gaps and hours of the week are known to the quarter of an hour."
    )


def share_in_words(part: float) -> str:
    """Return per cent; all and nothing only if it is so."""
    if 0 < part < 0.001 or 0.999 <= part < 1:
        return "<0.1%" if part < 0.5 else ">99.9%"
    return f"{part:.1%}" if part < 1 else "100%"


def _wasted(line: Line) -> int:
    return line.idle_ms + line.stuck_ms


def _gaps_in_words(report: Report) -> str:
    longest = sorted(report.gaps_s, key=lambda gap: gap[0] - gap[1])[:_GAPS_TOLD]
    if not longest:
        return ""
    spans = (
        f"{local_time(begin, report):%Y-%m-%d %H:%M} to {local_time(end, report):%Y-%m-%d %H:%M}"
        for begin, end in sorted(longest)
    )
    more = len(report.gaps_s) - len(longest)
    return f"; nobody watched from {', from '.join(spans)}" + (f", and {more} times more" if more else "")


def local_time(at_s: float, report: Report) -> datetime:
    """Return a time in the zone of the report."""
    return datetime.fromtimestamp(at_s, UTC).astimezone(report.zone)


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
        "made": {
            "fallow": __version__,
            "host": report.host,
            "at": iso_time(report.made_s),
            "source": report.source,
            "resolution_s": QUARTER_MS / 1000,
        },
        "since": iso_time(report.since_s),
        "until": iso_time(report.until_s),
        "observed_share": round(report.observed_share, 4),
        "gaps": [{"since": iso_time(begin), "until": iso_time(end)} for begin, end in report.gaps_s[:_MOST_GAPS]],
        "hours": [
            {
                "weekday": one.weekday + 1,
                "hour": one.hour,
                **{f"{activity.value}_s": ms / 1000 for activity, ms in one.ms},
            }
            for one in report.hours_of_week.values()
        ],
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
    fields = [*NAME_FIELDS[by], "observed_s", *times, "energy_j", "metered_s", "cost"]
    writer.writerow([*fields, "currency", *_ABOUT])
    hosts = sorted({card.host for card in report.cards.values()})
    for line in report.bill(by).lines:
        facts = _facts(line, by, report.cards)
        host = report.cards[line.name[0]].host if by is By.GPU else ", ".join(hosts)
        about = (report.prices.currency, *span_cells(report.since_s, report.until_s), host)
        writer.writerow([csv_cell(fact) for fact in (*(facts[field] for field in fields), *about)])
    return text.getvalue()


def hours_as_csv(report: Report) -> str:
    """Return a heading and a row for each hour of the week that was watched, with the fields of `hours`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["weekday", "hour", "observed_s", *(f"{activity.value}_s" for activity in Activity), *_ABOUT])
    hosts = ", ".join(sorted({card.host for card in report.cards.values()}))
    about = [csv_cell(fact) for fact in (*span_cells(report.since_s, report.until_s), hosts)]
    for one in report.hours_of_week.values():
        spent = dict(one.ms)
        times = [spent.get(activity, 0) / 1000 for activity in Activity]
        writer.writerow([one.weekday + 1, one.hour, one.observed_ms / 1000, *times, *about])
    return text.getvalue()


def span_cells(since_s: float, until_s: float) -> tuple[str, str]:
    """Return when a report begins and ends, as each row of a CSV tells it."""
    return iso_time(since_s), iso_time(until_s)


def _facts(line: Line, by: By, cards: dict[str, Card]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if line.name and by is By.GPU:
        card = cards[line.name[0]]
        facts.update(zip(NAME_FIELDS[by], (card.label, card.uuid, card.name), strict=True))
    elif line.name:
        facts.update(zip(NAME_FIELDS[by], line.name, strict=True))
    facts["observed_s"] = line.observed_ms / 1000
    facts.update((f"{activity.value}_s", line.ms(activity) / 1000) for activity in Activity)
    facts["energy_j"], facts["metered_s"] = line.energy_j, line.metered_ms / 1000
    facts["cost"] = line.cost if isinstance(line.cost, Unknown) else round(line.cost, 6)
    return with_reasons(facts)


def csv_cell(fact: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: other users wrote the commands in it.

    Where a comma is in numbers, spreadsheets part the rows at semicolons.
    """
    if isinstance(fact, str) and fact != "-":
        return _FORMULA.sub(r"\1'\2", fact)
    return "" if fact is None else fact
