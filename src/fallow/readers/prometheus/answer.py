"""Read the answers of Prometheus' HTTP API. What they say is written by others: nothing here raises."""

import json
from math import isfinite

from fallow.core.http import HttpAnswer
from fallow.core.units import printable
from fallow.core.unknown import Unknown

Labels = dict[str, str]
Vector = list[tuple[Labels, float]]
_LONGEST_COMPLAINT = 200
_TEXT = frozenset((str,))


def vector(answer: HttpAnswer) -> Vector | Unknown:
    """Return the labels and the value of each series; Unknown if anything of the answer is not as it should be."""
    data = _data(answer, "vector")
    if isinstance(data, Unknown):
        return data
    try:
        return [(_labels(each["metric"]), float(_text(each["value"][1]))) for each in data]
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return Unknown("Prometheus answered with a series that cannot be read")


def scalar(answer: HttpAnswer) -> float | Unknown:
    """Return the one number of an answer."""
    data = _data(answer, "scalar")
    if isinstance(data, Unknown):
        return data
    try:
        found = float(_text(data[1]))
    except (TypeError, ValueError, IndexError):
        found = float("nan")
    return found if isfinite(found) else Unknown("Prometheus answered with something else than a number")


def _data(answer: HttpAnswer, kind: str) -> list[dict[str, list[object]]] | Unknown:
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return Unknown(f"Prometheus answered {answer.status}, and nothing that can be read")
    if not isinstance(body, dict):
        return Unknown(f"Prometheus answered {answer.status}, and nothing that can be read")
    if answer.status != 200 or body.get("status") != "success":
        return Unknown(f"Prometheus answered {answer.status}: {_said(body.get('error', 'no reason'))}")
    if body.get("warnings"):
        return Unknown(f"Prometheus answered in part: {_said(body['warnings'])}")
    data = body.get("data")
    if not isinstance(data, dict) or data.get("resultType") != kind or not isinstance(data.get("result"), list):
        return Unknown(f"Prometheus answered with something else than a {kind}")
    found: list[dict[str, list[object]]] = data["result"]
    return found


def _labels(found: object) -> Labels:
    if not isinstance(found, dict) or not _TEXT.issuperset(map(type, found.values())):
        raise TypeError
    return found


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError
    return found


def _said(found: object) -> str:
    return printable(str(found))[:_LONGEST_COMPLAINT]
