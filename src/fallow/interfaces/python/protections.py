"""Protections, as the calls return them: each can be released."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from fallow.core import protections as core
from fallow.interfaces.python.ask import asking
from fallow.interfaces.python.html import table
from fallow.interfaces.python.told import Make, Told, times

_LONGEST = 120


class Protection(Told):
    """A protection that is in force. In a `with` block it lasts until the end of the block at most."""

    MADE: ClassVar[Mapping[str, Make]] = times("until")

    id: int
    subject: str
    until: datetime | None
    """None if it lasts until it is released."""
    why: str
    by: str

    def __init__(
        self, facts: Mapping[str, Any], machine: str | None = None, *, notes: Iterable[str] = (), named: str = ""
    ) -> None:
        """`named`: what people call its subject, if that is known."""
        super().__init__(facts, notes=notes)
        self.__dict__.update(_machine=machine, _is_released=False, _named=named or facts["subject"])

    def release(self) -> None:
        """End the protection now. Nothing happens the second time."""
        if self._is_released:
            return
        from fallow.engine.answers.protect import release

        with asking(self._machine) as (asker, _):
            release(asker, self.id)
        self.__dict__["_is_released"] = True

    def __enter__(self) -> "Protection":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def _in_words(self) -> str:
        until = "until it is released" if self.until is None else f"until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        reason = f": {self.why}" if self.why else ""
        return f"{self.id}: {self.by} protects {self._named} {until}{reason}{' (released)' * self._is_released}"

    @property
    def _until_in_words(self) -> str:
        if self._is_released:
            return "released"
        return "" if self.until is None else f"{self.until:%Y-%m-%d %H:%M:%S}"

    def _repr_html_(self) -> str:
        return Protections([self])._repr_html_()

    _machine: str | None
    _is_released: bool
    _named: str


def of_engine(
    placed: core.Protection, labels: Mapping[str, str], machine: str | None, notes: Iterable[str] = ()
) -> Protection:
    """Return a protection of the engine; `labels` are those of the GPUs by UUID."""
    from fallow.interfaces.render.as_json import protection_facts

    target = placed.target
    named = f"GPU {labels[target.uuid]}" if isinstance(target, core.OneGpu) and target.uuid in labels else ""
    return Protection(protection_facts(placed), machine, notes=notes, named=named)


class Protections(tuple[Protection, ...]):
    """The protections that are in force."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON as `fallow protect --list --json` prints it."""
        from fallow.core.api import VERSION

        return {"version": VERSION, "protections": [one.to_dict() for one in self]}

    def __repr__(self) -> str:
        from fallow.core.units import shortened

        return f"<Protections {'; '.join(shortened(one._in_words, _LONGEST) for one in self) or 'none'}>"

    def _repr_html_(self) -> str:
        rows = [(str(one.id), one._named, one.by, one._until_in_words, one.why) for one in self]
        return table("" if self else "nothing is protected", ("id", "subject", "by", "until (UTC)", "why"), rows)
