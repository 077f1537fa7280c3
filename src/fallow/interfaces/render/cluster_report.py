"""Render what a cluster did: a table and a page for people, JSON and CSV for programs."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

from fallow.core.cluster_usage import UsageReport, UsageRow
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.interfaces.render import cluster_json
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.render.report_text import csv_cell, hours, span_cells

_MOST_LINES = 100
_SECOND_MS = 1000


def show_table(report: UsageReport) -> None:
    """Print the hours of each line, its cost if there is a price, and the whole."""
    from fallow.interfaces.render.table import show_hours

    show_hours(title_of(report), _heads(report), _rows(report), 1)


def title_of(report: UsageReport) -> str:
    """Return what the report is about."""
    since, until = (datetime.fromtimestamp(at, UTC) for at in (report.since_s, report.until_s))
    return f"GPU hours of the cluster by {report.by}, {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"


def as_json(report: UsageReport) -> str:
    """Return the report as one JSON object."""
    facts = cluster_json.usage(report)
    price = {"currency": report.prices.currency or None, "price_per_hour": report.prices.default}
    lines = [_with_cost(line, report, row) for line, row in zip(facts["lines"], report.rows, strict=True)]
    total = _with_cost(facts["total"], report, report.total)
    return f"{as_text(facts | price | {'lines': lines, 'total': total})}\n"


def as_csv(report: UsageReport) -> str:
    """Return a heading and a row for each line, with the fields of the JSON; unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    times = ["held_s", "busy_s", "idle_s", "empty_s", "unknown_s", "filled_s", "free_s"]
    writer.writerow([report.by, *times, "cost", "currency", "since", "until"])
    about = (report.prices.currency, *span_cells(report.since_s, report.until_s))
    for row in report.rows:
        facts = _with_cost(cluster_json.usage_line(row, has_free=report.by == "node"), report, row)
        facts.pop("unknown")
        writer.writerow([csv_cell(fact) for fact in (*facts.values(), *about)])
    return text.getvalue()


def as_html(report: UsageReport) -> str:
    """Return the report as one page that loads nothing else."""
    from html import escape

    def cells(row: list[str], kind: str = "td") -> str:
        return "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row)

    title = escape(title_of(report))
    *rows, total = _rows(report)
    body = "\n".join(f"<tr>{cells(row)}</tr>" for row in rows)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title>\n'
        "<style>body{font:16px/1.45 system-ui,sans-serif;max-width:62rem;margin:0 auto;padding:1rem}"
        "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
        "th,td{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #8886}"
        "th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}</style></head>\n"
        f"<body><h1>{title}</h1>\n<table><thead><tr>{cells(_heads(report), 'th')}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody><tfoot><tr>{cells(total, 'th')}</tr></tfoot></table>\n"
        "<p>idle: held by jobs and not used. empty: of that, held by jobs with nothing on any of their GPUs."
        " filled: held by background jobs, which give way; nothing of it is idle, or costs.</p>\n"
        "</body></html>\n"
    )


def _heads(report: UsageReport) -> list[str]:
    heads = [report.by, "held", "busy", "idle", "empty", "unknown", *(["filled"] if report.total.filled_s else [])]
    heads += ["free"] if report.by == "node" else []
    return [*heads, "idle %", *(["cost"] if report.prices.default is not None else [])]


def _rows(report: UsageReport) -> list[list[str]]:
    """Return the lines for people: the first ones, the rest as one, and the whole."""
    shown, rest = report.rows[:_MOST_LINES], report.rows[_MOST_LINES:]
    lines = [*shown, *([_sum(rest)] if rest else []), replace(report.total, name="all")]
    return [_row(report, line) for line in lines]


def _row(report: UsageReport, row: UsageRow) -> list[str]:
    times = [row.held_s, row.busy_s, row.idle_s, row.empty_s, row.unknown_s]
    times += [row.filled_s] if report.total.filled_s else []
    times += [row.free_s] if report.by == "node" else []
    share = f"{row.idle_s / row.held_s:.0%}" if row.held_s else ""
    cost = report.cost(row)
    money = [] if isinstance(cost, Unknown) else [report.prices.in_words(cost)]
    return [printable(row.name), *(hours(round(seconds * _SECOND_MS)) for seconds in times), share, *money]


def _sum(rows: tuple[UsageRow, ...]) -> UsageRow:
    times = ("busy_s", "idle_s", "empty_s", "unknown_s", "free_s", "filled_s")
    return UsageRow(f"{len(rows)} more", *(sum(getattr(row, name) for row in rows) for name in times))


def _with_cost(line: dict[str, Any], report: UsageReport, row: UsageRow) -> dict[str, Any]:
    cost = report.cost(row)
    if isinstance(cost, Unknown):
        return line | {"cost": None, "unknown": {"cost": cost.why}}
    return line | {"cost": round(cost, 6), "unknown": {}}
