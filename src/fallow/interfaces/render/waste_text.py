"""Tell who left GPUs idle, the most hours first: a line for each user, with what that cost."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from fallow.core.money import Prices
from fallow.core.value import value
from fallow.engine.history.report import Report
from fallow.engine.machine.daemon_client import Facts
from fallow.interfaces.render.report_text import cost_for_people, share_in_words, span_in_words, time_spent
from fallow.policies.cost import By, first_lines

_MOST_USERS = 30
_NAMES = {"-": "nobody", "?": "unknown"}
_SAID = "hours in which a user held a GPU and it was idle or stuck"
_NO_PRICE = "without money: the config of `fallow up` has no price under [machine]"


@value
class _User:
    """What one user held, and left unused."""

    name: str
    wasted_ms: int
    held_ms: int
    cost: str
    """Empty where there is no price."""


def waste_lines(report: Report) -> list[str]:
    """Return who wasted most on this machine."""
    users = [
        _User(
            line.name[0],
            line.idle_ms + line.stuck_ms,
            line.busy_ms + line.idle_ms + line.stuck_ms,
            cost_for_people(line, report) if report.prices.given else "",
        )
        for line in first_lines(report.bill(By.USER), _MOST_USERS)
    ]
    return _lines(users, span_in_words(report)) if report.intervals else []


def fleet_waste_lines(facts: Facts) -> list[str]:
    """Return who wasted most on all hosts of a fleet, of the daemon's report by user."""
    prices = Prices(currency=facts["currency"] or "")
    users = [
        _User(
            str(line["user"]),
            round((line["idle_s"] + line["stuck_s"]) * 1000),
            round((line["busy_s"] + line["idle_s"] + line["stuck_s"]) * 1000),
            "" if line["cost"] is None else prices.in_words(line["cost"]),
        )
        for line in facts["lines"]
    ]
    ordered = sorted(users, key=lambda user: -user.wasted_ms)[:_MOST_USERS]
    since, until = (datetime.fromisoformat(facts[end]) for end in ("since", "until"))
    silent = [f"without {host['name']}: {host['error']}" for host in facts["hosts"] if host["error"] is not None]
    return [*_lines(ordered, f"{since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"), *silent]


def _lines(users: Sequence[_User], span: str) -> list[str]:
    wasted = [user for user in users if user.wasted_ms]
    if not wasted:
        return [span, "nobody left a GPU idle in that time, as far as it was watched"]
    priced = any(user.cost for user in wasted)
    return [span, _SAID, "", *_table(wasted, priced=priced), *([] if priced else ["", _NO_PRICE])]


def _table(users: Sequence[_User], *, priced: bool) -> Iterator[str]:
    rows = [("user", "wasted", "of held", *(["cost"] if priced else []))]
    for user in users:
        share = share_in_words(user.wasted_ms / max(1, user.held_ms))
        cells = (_NAMES.get(user.name, user.name), time_spent(user.wasted_ms), share)
        rows.append((*cells, *([user.cost or "?"] if priced else [])))
    name, *wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        numbers = (cell.rjust(width) for cell, width in zip(row[1:], wide, strict=True))
        yield "  ".join([row[0].ljust(name), *numbers])
