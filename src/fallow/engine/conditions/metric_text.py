"""Read sums of metrics from the text format of Prometheus. What it says is written by others: nothing here raises."""

import re
from math import isfinite

from fallow.core.unknown import Unknown

_NAME = re.compile(r"[^\s{]*")
_LABELS = re.compile(r'\s*(?:\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\})?\s*')
_NUMBER = re.compile(r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?)(?:\s.*)?", re.ASCII)


def sums(body: bytes, names: tuple[str, ...]) -> dict[str, float | Unknown]:
    """Return the sum of each metric over all its labels; Unknown if it is not there, or not a number."""
    totals: dict[str, float] = {}
    wrong: set[str] = set()
    for raw in body.decode(errors="replace").split("\n"):
        line = raw.strip()
        name = _NAME.match(line)
        if name is None or name[0] not in names:
            continue
        labels = _LABELS.match(line, name.end())
        number = _NUMBER.fullmatch(line, name.end() if labels is None else labels.end())
        if number is None:
            wrong.add(name[0])
        else:
            totals[name[0]] = totals.get(name[0], 0.0) + float(number[1])
    return {name: _sum(name, totals.get(name), name in wrong) for name in names}


def _sum(name: str, total: float | None, wrong: bool) -> float | Unknown:
    if wrong or (total is not None and not isfinite(total)):
        return Unknown(f"the metric {name} is not a number")
    return Unknown(f"the server has no metric {name}") if total is None else total
