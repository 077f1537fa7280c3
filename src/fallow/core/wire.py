"""The values that the daemon hands to those who ask, as JSON and back, without losing what is Unknown.

A value is an object that says what it is: `{"is": "Unknown", "why": "…"}`. What may travel is a closed list. The
version of the language is a sum over that list and all fields in it, so that two who have different fields never
take one for the other, and nobody has to remember to count it up.
"""

import math
from collections.abc import Iterable, Mapping
from zlib import crc32

from fallow.core.activity import Activity
from fallow.core.board import Counting, FillerView, GuardView
from fallow.core.findings import Event
from fallow.core.gpu import (
    Counters,
    Holder,
    Memory,
    Place,
    Recent,
)
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import Card, Interval, Party
from fallow.core.money import Prices
from fallow.core.protections import (
    Everything,
    OneGpu,
    OneProcess,
    OneUser,
    Protection,
)
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import fields

_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(Unknown, Holder, Memory, Recent, Counters, Place, Claim, GpuStatus, Status),
        *(Counting, FillerView, GuardView),
        *(Event, Protection, Everything, OneGpu, OneProcess, OneUser, Card, Interval, Party, Prices),
    )
}


def version_of(kinds: Mapping[str, type], activities: Iterable[str]) -> str:
    """The name of the language in which these are spoken of."""
    shape = ";".join(f"{name}({','.join(fields(kind))})" for name, kind in kinds.items())
    return f"1-{crc32(f'{shape};{[*activities]}'.encode()):08x}"


VERSION = version_of(_KINDS, (each.value for each in Activity))
"""What is spoken here. The first number counts the requests and their answers."""

_DEEPEST = 12


class Garbled(ValueError):
    """What came is none of our values."""


def packed(what: object) -> object:
    """As json can write it."""
    if isinstance(what, Activity):
        return {"is": "Activity", "of": what.value}
    if isinstance(what, float) and math.isinf(what):
        return {"is": "never"}
    if what is None or isinstance(what, bool | int | float | str):
        return what
    if isinstance(what, tuple | list):
        return [packed(each) for each in what]
    name = type(what).__name__
    if _KINDS.get(name) is not type(what):
        raise TypeError(f"a {name} does not travel")
    return {"is": name} | {field: packed(getattr(what, field)) for field in fields(type(what))}


def unpacked(what: object, depth: int = 0) -> object:
    """The value that was packed; Garbled if it is none."""
    if depth > _DEEPEST:
        raise Garbled("it is nested too deep")
    if isinstance(what, list):
        return tuple(unpacked(each, depth + 1) for each in what)
    if not isinstance(what, Mapping):
        return what
    kind = what.get("is")
    if kind == "never":
        return math.inf
    if kind == "Activity":
        try:
            return Activity(str(what.get("of")))
        except ValueError:
            raise Garbled(f"{what.get('of')!r} is no activity") from None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Garbled(f"{kind!r} is no value that travels")
    try:
        return _KINDS[kind](**{name: unpacked(each, depth + 1) for name, each in what.items() if name != "is"})
    except TypeError as error:
        raise Garbled(str(error)) from None
