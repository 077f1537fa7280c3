"""Read and write the file of one protection.

Any user can write such a file, so everything is checked: its size, its types, its numbers, its letters. A file that
makes no sense protects everything. Nothing here raises, whatever was written.
"""

import json
import math
from enum import StrEnum

from fallow.core.errors import WrongUsage
from fallow.core.protections import Everything, Protection, Target, parse_target, reason_of
from fallow.core.value import value

MOST_BYTES = 8192
_END_OF_TIME_S = 4e9


class Says(StrEnum):
    """What the file of a protection says."""

    HOLD = "protect"
    RELEASED = "released"
    """Its owner has ended the protection early, in a folder where removing the file would not prove that."""
    OF_ANOTHER_NAME = "of another name"
    """A link to, or a copy of, the file of another protection."""
    NONSENSE = "nonsense"


@value
class Word:
    """What the file of a protection says, and the protection that follows from it."""

    says: Says
    protection: Protection
    pid_namespace: int | None = None
    """The pid namespace of the target's pid, if the file says so."""


def written(number: int, target: Target, until_wall_s: float, why: str, pid_namespace: int | None = None) -> bytes:
    """Return the content of a new file."""
    fields: dict[str, object] = {"id": number, "target": str(target), "until": until_wall_s, "why": reason_of(why)}
    if pid_namespace is not None:
        fields["pid_namespace"] = pid_namespace
    return json.dumps(fields).encode()


def written_released(number: int, until_wall_s: float) -> bytes:
    """Return the content that says that the owner released it. It stays until the protection would have ended."""
    until = None if until_wall_s == math.inf else until_wall_s
    return json.dumps({"id": number, "released": True, "until": until}).encode()


def nonsense(number: int, owner: str, why: str = "its file makes no sense, so it protects everything") -> Word:
    """Return a protection of everything, for a file that makes no sense."""
    return Word(Says.NONSENSE, Protection(number, Everything(), math.inf, why, owner))


def understood(number: int, raw: bytes, owner: str) -> Word:
    """Return what the file of that number says."""
    try:
        fields = json.loads(raw) if len(raw) <= MOST_BYTES else None
        if not isinstance(fields, dict):
            return nonsense(number, owner)
        own_number = fields.get("id", number)
        until_s = _until_s(fields.get("until"))
        if fields.get("released") is True:
            says = Says.RELEASED if own_number == number else Says.OF_ANOTHER_NAME
            return Word(says, Protection(number, Everything(), until_s, "", owner))
        target, why = fields.get("target"), fields.get("why")
        if not isinstance(target, str) or not isinstance(why, str) or "until" not in fields:
            return nonsense(number, owner)
        protection = Protection(number, parse_target(target), until_s, reason_of(why), owner)
        namespace = fields.get("pid_namespace")
    except (ValueError, TypeError, ArithmeticError, RecursionError, WrongUsage):
        return nonsense(number, owner)
    says = Says.HOLD if own_number == number else Says.OF_ANOTHER_NAME
    return Word(says, protection, namespace if isinstance(namespace, int) else None)


def _until_s(until: object) -> float:
    """Return when it ends; a time that makes no sense is no end."""
    if until is None:
        return math.inf
    if isinstance(until, bool) or not isinstance(until, int | float):
        raise TypeError("no time")
    until_s = float(until)
    return until_s if until_s < _END_OF_TIME_S else math.inf
