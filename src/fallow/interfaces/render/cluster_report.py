"""Render what a cluster did: a table and a page for people, JSON and CSV for programs."""

import csv
import io
from datetime import UTC, datetime
from typing import Any

from fallow.core.activity import Activity
from fallow.core.api import VERSION
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.engine.answers.cluster_report import ClusterReport, summed
from fallow.interfaces.render.as_json import as_text, iso_time, with_reasons
from fallow.interfaces.render.report_text import csv_cell, span_cells, time_spent
from fallow.policies.cost import Line

_MOST_LINES = 100
_TIMES = [f"{activity.value}_s" for activity in Activity if activity is not Activity.STUCK]


def show_table(report: ClusterReport) -> None:
    """Print the time of each state, the cost if there is a price, and the sum."""
    from fallow.interfaces.render.table import show_hours

    show_hours(_title(report), _heads(report), _rows(report), 1)


def as_json(report: ClusterReport) -> str:
    """Return the report as one JSON object, with times in seconds to the millisecond."""
    facts = {
        "version": VERSION,
        "since": iso_time(report.since_s),
        "until": iso_time(report.until_s),
        "by": report.by,
        "currency": report.prices.currency or None,
        "lines": [_facts(line) for line in report.lines],
        "total": _facts(report.total),
    }
    return f"{as_text(facts)}\n"


def as_csv(report: ClusterReport) -> str:
    """Return a heading and a row for each line, with the fields of the JSON; unknown values are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = ["name", "observed_s", *_TIMES, "cost"]
    writer.writerow([report.by, *fields[1:], "currency", "since", "until"])
    about = (report.prices.currency, *span_cells(report.since_s, report.until_s))
    for line in report.lines:
        facts = _facts(line)
        writer.writerow([csv_cell(fact) for fact in (*(facts[field] for field in fields), *about)])
    return text.getvalue()


def as_html(report: ClusterReport) -> str:
    """Return the table as one page that loads nothing else."""
    from html import escape

    def cells(row: list[str], kind: str = "td") -> str:
        return "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row)

    title = escape(_title(report))
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
        f"<tbody>\n{body}\n</tbody><tfoot><tr>{cells(total, 'th')}</tr></tfoot></table>\n</body></html>\n"
    )


def _title(report: ClusterReport) -> str:
    since, until = (datetime.fromtimestamp(at, UTC) for at in (report.since_s, report.until_s))
    return f"GPU hours of the cluster by {report.by}, {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"


def _shown(report: ClusterReport) -> list[Activity]:
    return [activity for activity in Activity if report.total.ms(activity)]


def _heads(report: ClusterReport) -> list[str]:
    cost = ["cost"] * (report.prices.default is not None)
    return [report.by, *(activity.value for activity in _shown(report)), "observed", *cost]


def _rows(report: ClusterReport) -> list[list[str]]:
    """Return the lines for people: the first ones, the rest as one, and the sum."""
    first, rest = report.lines[:_MOST_LINES], report.lines[_MOST_LINES:]
    more = [summed(f"{len(rest)} more", rest)] if rest else []
    return [_row(report, line) for line in (*first, *more, report.total)]


def _row(report: ClusterReport, line: Line) -> list[str]:
    times = [time_spent(line.ms(activity)) for activity in _shown(report)]
    cost = [] if isinstance(line.cost, Unknown) else [report.prices.in_words(line.cost)]
    return [printable(line.name[0]), *times, time_spent(line.observed_ms), *cost]


def _facts(line: Line) -> dict[str, Any]:
    times = {f"{activity.value}_s": line.ms(activity) / 1000 for activity in Activity}
    cost = line.cost if isinstance(line.cost, Unknown) else round(line.cost, 6)
    facts = {"name": line.name[0], "observed_s": line.observed_ms / 1000, **{name: times[name] for name in _TIMES}}
    return with_reasons(facts | {"cost": cost})
