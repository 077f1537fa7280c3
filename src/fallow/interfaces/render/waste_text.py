"""Tell who left GPUs idle, the most hours first: a line for each user, with what that cost."""

from collections.abc import Iterator, Sequence

from fallow.engine.history.report import Report
from fallow.interfaces.render.report_text import cost_for_people, share_in_words, span_in_words, time_spent
from fallow.policies.cost import By, Line, first_lines

_MOST_USERS = 30
_NAMES = {"-": "nobody", "?": "unknown"}
_SAID = "hours in which a user held a GPU and it was idle or stuck"
_NO_PRICE = "without money: the config of `fallow up` has no price under [machine]"


def waste_lines(report: Report) -> list[str]:
    """Return who wasted most on this machine; nothing if nothing was watched."""
    if not report.intervals:
        return []
    span = span_in_words(report)
    users = [line for line in first_lines(report.bill(By.USER), _MOST_USERS) if line.idle_ms or line.stuck_ms]
    if not users:
        return [span, "nobody left a GPU idle in that time, as far as it was watched"]
    return [span, _SAID, "", *_table(users, report), *([] if report.prices.given else ["", _NO_PRICE])]


def _table(users: Sequence[Line], report: Report) -> Iterator[str]:
    priced = report.prices.given
    rows = [("user", "wasted", "of held", *(["cost"] if priced else []))]
    for user in users:
        wasted_ms = user.idle_ms + user.stuck_ms
        share = share_in_words(wasted_ms / max(1, user.busy_ms + wasted_ms))
        cells = (_NAMES.get(user.name[0], user.name[0]), time_spent(wasted_ms), share)
        rows.append((*cells, *([cost_for_people(user, report)] if priced else [])))
    name, *wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], wide, strict=True))
        yield "  ".join([row[0].ljust(name), *numbers])
