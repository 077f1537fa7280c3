"""The reports of several hosts, asked at once and added up: hours by host, GPU, user, job, day or week, and costs.

Nothing in an answer is believed before its type and size are checked.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from fallow.core.activity import Activity
from fallow.core.units import shortened
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Facts, Refused, ask_all
from fallow.engine.remote.ssh import Ssh
from fallow.policies.cost import NAME_FIELDS, NOT_METERED, By

HOST = "host"
KINDS = (HOST, *By)
"""What the hours of several hosts are added up by."""
TIMES = ("observed_s", *(f"{activity.value}_s" for activity in Activity))
_ADDED = (*TIMES, "energy_j", "metered_s")
_LONGEST_NAME = 200
_MOST = 1e15


@value
class HostLine:
    """One line of a host's report."""

    name: tuple[str, ...]
    amounts: tuple[float, ...]
    """The seconds of `TIMES`, the energy, and the time in which that was metered."""
    cost: float | None
    """None if the host does not know it."""


@value
class HostReport:
    """The report of one host."""

    lines: tuple[HostLine, ...]
    currency: str


def reports_of(
    world: World, ssh: Ssh, hosts: Sequence[str], words: Sequence[str], kind: str
) -> list[tuple[str, HostReport | Refused]]:
    """Return the report of each host, in order, or why there is none. `words`: further words of `fallow report`."""
    by = _asked(kind)
    command = ["report", "--format", "json", "--by", by.value, *words]
    return ask_all(world, ssh, hosts, command, partial(host_report, names=NAME_FIELDS[by]))


def _asked(kind: str) -> By:
    """Return what each host adds its hours up by, so that they can be added up over hosts."""
    return By.GPU if kind == HOST else By(kind)


def host_report(facts: Facts, names: Sequence[str]) -> HostReport:
    """Return the report in an answer; raise TypeError, KeyError or ValueError if it is none."""
    lines = tuple(
        HostLine(
            tuple(shortened(str(line[name]), _LONGEST_NAME) for name in names),
            tuple(_amount(line[name] or 0) for name in _ADDED),
            None if line["cost"] is None else _amount(line["cost"]),
        )
        for line in facts["lines"]
    )
    return HostReport(lines, str(facts["currency"] or "")[:4])


def _amount(fact: object) -> float:
    if isinstance(fact, bool) or not isinstance(fact, (int, float)) or not 0 <= fact <= _MOST:
        raise TypeError("a number in it is none")
    return float(fact)


def added_up(answers: Sequence[tuple[str, HostReport | Refused]], kind: str) -> dict[str, Any]:
    """Return the lines, their total and the currency.

    GPUs are in the order of their hosts, days and weeks in their own; of the others, those with most idle hours come
    first.
    """
    reports = [(host, answer) for host, answer in answers if isinstance(answer, HostReport)]
    currencies = {report.currency for _, report in reports if report.lines}
    found: dict[tuple[str, ...], list[tuple[str, HostLine]]] = {}
    for host, report in reports:
        for line in report.lines:
            name = {HOST: (host,), By.GPU: (host, *line.name)}.get(kind, line.name)
            found.setdefault(name, []).append((host, line))
    comparable = len(currencies) <= 1
    lines = [
        {**dict(zip(name_fields(kind), name, strict=True)), "hosts": sorted({host for host, _ in parts})}
        | _sums([line for _, line in parts], comparable=comparable)
        for name, parts in found.items()
    ]
    if kind in (By.DAY, By.WEEK):
        lines.sort(key=lambda line: line[kind])
    elif kind != By.GPU:
        lines.sort(key=lambda line: -line["idle_s"])
    every = [line for _, report in reports for line in report.lines]
    currency = currencies.pop() if len(currencies) == 1 else ""
    return {"currency": currency or None, "lines": lines, "total": _sums(every, comparable=comparable)}


def name_fields(kind: str) -> tuple[str, ...]:
    """Return the fields that name a line."""
    if kind == HOST:
        return (HOST,)
    return (HOST, *NAME_FIELDS[By.GPU]) if kind == By.GPU else NAME_FIELDS[By(kind)]


def _sums(lines: Sequence[HostLine], *, comparable: bool) -> dict[str, Any]:
    columns = zip(*(line.amounts for line in lines), strict=True) if lines else [()] * len(_ADDED)
    facts: dict[str, Any] = {name: round(sum(column), 3) for name, column in zip(_ADDED, columns, strict=True)}
    costs = [line.cost for line in lines if line.cost is not None]
    known = comparable and len(costs) == len(lines) > 0
    unknown = {} if known else {"cost": "some host has no price, or another currency"}
    if not facts["metered_s"]:
        facts["energy_j"], unknown["energy_j"] = None, str(NOT_METERED)
    return {**facts, "cost": round(sum(costs), 6) if known else None, "unknown": unknown}
