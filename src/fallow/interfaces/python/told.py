"""What all values have in common that the calls return: the fields of the JSON as attributes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, NoReturn, TypeVar

from fallow.engine.client.from_json import fact

T = TypeVar("T", bound="Told")
Make = Callable[[Any], object]


class Told:
    """A frozen value with the fields of the JSON, under the same names.

    What is null in the JSON because it is not known is an Unknown with its reason. Lists are tuples, times are
    datetimes in UTC. `to_dict()` returns the JSON.
    """

    MADE: ClassVar[Mapping[str, Make]] = {}
    """How fields become values that are more than text, numbers and lists."""

    unknown: dict[str, str]
    """Why, for each field that is not known."""
    notes: tuple[str, ...] = ()
    """What the command would write to stderr beside its answer; no part of the JSON."""

    def __init__(self, facts: Mapping[str, Any], *, notes: Iterable[str] = ()) -> None:
        reasons = {"unknown": {}, **facts}
        made = {name: self._made(name, fact(reasons, name)) for name in reasons if name != "version"}
        self.__dict__.update(made, _facts=facts, notes=tuple(notes))

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON as the command prints it: a dictionary of your own."""
        from copy import deepcopy

        return deepcopy(dict(self._facts))

    @classmethod
    def _made(cls, name: str, given: object) -> object:
        make = cls.MADE.get(name)
        if make is not None and isinstance(given, str | dict | list):
            return make(given)
        return tuple(given) if isinstance(given, list) else given

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Told) and type(self) is type(other) and self._facts == other._facts

    def __hash__(self) -> int:
        plain = {(name, each) for name, each in self._facts.items() if isinstance(each, str | int | float)}
        return hash((type(self), frozenset(plain)))

    def __setattr__(self, name: str, _: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen; {name} cannot be changed")

    def __repr__(self) -> str:
        from fallow.core.units import shortened

        return f"<{type(self).__name__} {shortened(self._in_words, 120)}>"

    @property
    def _in_words(self) -> str:
        """Return the value in a few words."""
        return ", ".join(f"{name}={each!r}" for name, each in self._facts.items() if isinstance(each, str | int))

    _facts: Mapping[str, Any]


def times(*names: str) -> dict[str, Make]:
    """Return how these fields become times."""
    return dict.fromkeys(names, datetime.fromisoformat)


def one(kind: type[T]) -> Callable[[Mapping[str, Any]], T]:
    """Return how an object of the JSON becomes a value."""
    return kind


def each(kind: type[T]) -> Callable[[Sequence[Mapping[str, Any]]], tuple[T, ...]]:
    """Return how a list of the JSON becomes values."""
    return lambda facts: tuple(kind(one) for one in facts)
