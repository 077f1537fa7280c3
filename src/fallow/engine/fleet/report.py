"""Add up what the daemons of several hosts report: hours by host, GPU, user, job or day, and costs."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fallow.core.activity import Activity
from fallow.core.fleet import FleetBy
from fallow.core.reasons import Reason
from fallow.core.units import shortened
from fallow.core.value import value
from fallow.engine.fleet.ask import Host, ask
from fallow.engine.remote.ask import WRONG_SHAPE, Facts
from fallow.policies.cost import NAME_FIELDS, NOT_METERED, By

TIMES = ("observed_s", *(f"{activity.value}_s" for activity in Activity))
_ENERGY = ("metered_s", "energy_j")
_ADDED = (*TIMES, *_ENERGY)
_LIMIT_S = 20.0
_AT_ONCE = 16
_MOST_LINES = 10_000
_LONGEST_NAME = 200
_MOST = 1e15
_ASKED: dict[FleetBy, By] = {"host": By.GPU, "gpu": By.GPU, "user": By.USER, "job": By.JOB, "day": By.DAY}


@value
class Told:
    """The report of one host: seconds and money of each GPU, user, job or day, or why there is none."""

    host: str
    lines: tuple[tuple[tuple[str, ...], tuple[float, ...], float | None], ...] = ()
    """Each name, the seconds of `TIMES` with the energy behind them, and what it cost; None if that is not known."""
    currency: str = ""
    silent: Reason | None = None


def asked_for(by: FleetBy) -> By:
    """Return what each host adds its hours up by, so that they can be added up over hosts."""
    return _ASKED[by]


def reports_of(hosts: Sequence[Host], since_s: float, until_s: float, by: FleetBy) -> list[Told]:
    """Ask all hosts side by side, each for a bounded time; the reports end `until_s` before now."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fallow-fleet-report") as pool:
        return list(pool.map(lambda host: _report_of(host, since_s, until_s, by), hosts))


def _report_of(host: Host, since_s: float, until_s: float, by: FleetBy) -> Told:
    try:
        facts = ask(host, f"/report?since_s={since_s:.0f}&until_s={until_s:.0f}&by={asked_for(by)}", _LIMIT_S)
        return Told(host.name, silent=facts) if isinstance(facts, Reason) else told_by(host.name, facts, by)
    except WRONG_SHAPE as error:
        return Told(host.name, silent=Reason("host_makes_no_sense", why=shortened(str(error), 200)))


def told_by(host: str, facts: Facts, by: FleetBy) -> Told:
    """Return the report in the answer of a host; raise TypeError, KeyError or ValueError if it is none."""
    lines = facts["lines"]
    if not isinstance(lines, list) or len(lines) > _MOST_LINES:
        raise ValueError("its lines are no list, or too many")
    return Told(
        host, tuple(_line(each, NAME_FIELDS[asked_for(by)]) for each in lines), str(facts["currency"] or "")[:4]
    )


def _line(facts: Mapping[str, Any], names: Sequence[str]) -> tuple[tuple[str, ...], tuple[float, ...], float | None]:
    cost = facts["cost"]
    return (
        tuple(shortened(str(facts[name]), _LONGEST_NAME) for name in names),
        (
            *(_number(facts[name]) for name in TIMES),
            *(_number(facts.get(name) or 0) for name in _ENERGY),  # an older fallow does not tell it
        ),
        None if cost is None else _number(cost),
    )


def _number(fact: object) -> float:
    if isinstance(fact, bool) or not isinstance(fact, (int, float)) or not 0 <= fact <= _MOST:
        raise TypeError("a number in it is none")
    return float(fact)


def added_up(told: Sequence[Told], by: FleetBy) -> dict[str, Any]:
    """Return the lines, their total, and each host's trouble.

    GPUs are in the order of their hosts, days in their own; of the others, those with most idle hours come first.
    """
    currencies = {each.currency for each in told if each.lines}
    sums: dict[tuple[str, ...], tuple[list[float], list[float | None], set[str]]] = {}
    for each in told:
        for own, seconds, cost in each.lines:
            name = {"host": (each.host,), "gpu": (each.host, *own)}.get(by, own)
            times, costs, hosts = sums.setdefault(name, ([0.0] * len(_ADDED), [], set()))
            times[:] = [before + more for before, more in zip(times, seconds, strict=True)]
            costs.append(cost)
            hosts.add(each.host)
    idle = TIMES.index("idle_s")
    comparable = len(currencies) <= 1
    ordered = list(sums.items())
    if by == "day":
        ordered.sort(key=lambda item: item[0])
    elif by != "gpu":
        ordered.sort(key=lambda item: (-item[1][0][idle], item[0]))
    fields = {"host": ("host",), "gpu": ("host", *NAME_FIELDS[By.GPU])}.get(by, NAME_FIELDS[asked_for(by)])
    lines = [
        {
            **dict(zip(fields, name, strict=True)),
            "hosts": sorted(hosts),
            **_facts(times, costs if comparable else [None]),
        }
        for name, (times, costs, hosts) in ordered
    ]
    every = [times for times, _, _ in sums.values()]
    all_costs = [cost for _, costs, _ in sums.values() for cost in costs] if comparable else [None]
    total = _facts([sum(column) for column in zip(*every, strict=True)] or [0.0] * len(_ADDED), all_costs)
    hosts_told = [
        {"name": each.host, "error": None if each.silent is None else str(each.silent)}
        | {"reason": None if each.silent is None else each.silent.kind}
        for each in told
    ]
    currency = next(iter(currencies)) if len(currencies) == 1 else ""
    return {"by": by, "currency": currency or None, "hosts": hosts_told, "lines": lines, "total": total}


def _facts(times: Sequence[float], costs: Sequence[float | None]) -> dict[str, Any]:
    known = [cost for cost in costs if cost is not None]
    complete = len(known) == len(costs)
    unknown = {} if complete else {"cost": "some host has no price, or another currency"}
    amounts: dict[str, float | None] = {name: round(amount, 3) for name, amount in zip(_ADDED, times, strict=True)}
    if not amounts["metered_s"]:
        amounts["energy_j"], unknown["energy_j"] = None, str(NOT_METERED)
    return {**amounts, "cost": round(sum(known), 6) if complete else None, "unknown": unknown}
