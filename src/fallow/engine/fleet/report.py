"""Add up what the daemons of several hosts report: hours by user or by host, and what the idle ones cost."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from fallow.core.activity import Activity
from fallow.core.reasons import Reason
from fallow.core.units import shortened
from fallow.core.value import value
from fallow.engine.fleet.ask import Host, ask
from fallow.engine.remote.ask import WRONG_SHAPE, Facts

FleetBy = Literal["user", "host"]
TIMES = ("observed_s", *(f"{activity.value}_s" for activity in Activity))
_LIMIT_S = 20.0
_AT_ONCE = 16
_MOST_LINES = 10_000
_LONGEST_NAME = 64
_MOST_S = 1e12


@value
class Told:
    """The report of one host: seconds and money of each user, or why there is none."""

    host: str
    lines: tuple[tuple[str, tuple[float, ...], float | None], ...] = ()
    """Each user, the seconds of `TIMES`, and what it cost; None if that is not known."""
    currency: str = ""
    silent: Reason | None = None


def reports_of(hosts: Sequence[Host], since_s: float) -> list[Told]:
    """Ask all hosts side by side, each for a bounded time."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fallow-fleet-report") as pool:
        return list(pool.map(lambda host: _report_of(host, since_s), hosts))


def _report_of(host: Host, since_s: float) -> Told:
    try:
        facts = ask(host, f"/report?since_s={since_s:.0f}&by=user", _LIMIT_S)
        return Told(host.name, silent=facts) if isinstance(facts, Reason) else told_by(host.name, facts)
    except WRONG_SHAPE as error:
        return Told(host.name, silent=Reason("host_makes_no_sense", why=shortened(str(error), 200)))


def told_by(host: str, facts: Facts) -> Told:
    """Return the report in an answer by user; raise TypeError, KeyError or ValueError if it is none."""
    lines = facts["lines"]
    if not isinstance(lines, list) or len(lines) > _MOST_LINES:
        raise ValueError("its lines are no list, or too many")
    return Told(host, tuple(_line(each) for each in lines), str(facts["currency"] or "")[:4])


def _line(facts: Mapping[str, Any]) -> tuple[str, tuple[float, ...], float | None]:
    cost = facts["cost"]
    return (
        shortened(str(facts["user"]), _LONGEST_NAME),
        tuple(_number(facts[name]) for name in TIMES),
        None if cost is None else _number(cost),
    )


def _number(fact: object) -> float:
    if isinstance(fact, bool) or not isinstance(fact, (int, float)) or not 0 <= fact <= _MOST_S:
        raise TypeError("a number in it is none")
    return float(fact)


def added_up(told: Sequence[Told], by: FleetBy) -> dict[str, Any]:
    """Return the lines by user or by host, those with most idle hours first, their total, and each host's trouble."""
    currencies = {each.currency for each in told if each.lines}
    sums: dict[str, tuple[list[float], list[float | None], set[str]]] = {}
    for each in told:
        for user, seconds, cost in each.lines:
            name = user if by == "user" else each.host
            times, costs, hosts = sums.setdefault(name, ([0.0] * len(TIMES), [], set()))
            times[:] = [before + more for before, more in zip(times, seconds, strict=True)]
            costs.append(cost)
            hosts.add(each.host)
    idle = TIMES.index("idle_s")
    comparable = len(currencies) <= 1
    lines = [
        {by: name, "hosts": sorted(hosts), **_facts(times, costs if comparable else [None])}
        for name, (times, costs, hosts) in sorted(sums.items(), key=lambda item: (-item[1][0][idle], item[0]))
    ]
    every = [times for times, _, _ in sums.values()]
    all_costs = [cost for _, costs, _ in sums.values() for cost in costs] if comparable else [None]
    total = _facts([sum(column) for column in zip(*every, strict=True)] or [0.0] * len(TIMES), all_costs)
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
    seconds = {name: round(amount, 3) for name, amount in zip(TIMES, times, strict=True)}
    return {**seconds, "cost": round(sum(known), 6) if complete else None, "unknown": unknown}
