"""Protections, as the calls return them: each can be released."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from fallow.interfaces.python.ask import HERE, Way, asking
from fallow.interfaces.python.html import table
from fallow.interfaces.python.told import Make, Told, times


class Protection(Told):
    """A protection that is in force. In a `with` block it lasts until the end of the block at most."""

    MADE: ClassVar[Mapping[str, Make]] = times("until")

    id: int
    subject: str
    until: datetime | None
    """None if it lasts until it is released."""
    why: str
    by: str

    def __init__(self, facts: Mapping[str, Any], way: Way = HERE, *, notes: Iterable[str] = ()) -> None:
        super().__init__(facts, notes=notes)
        self.__dict__.update(_way=way, _is_released=False)

    def release(self) -> None:
        """End the protection now. Nothing happens the second time."""
        if self._is_released:
            return
        from fallow.engine.answers.protect import release

        with asking(self._way) as (asker, _):
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
        return f"{self.id}: {self.by} protects {self.subject} {until}{reason}{' (released)' * self._is_released}"

    def _repr_html_(self) -> str:
        return Protections([self])._repr_html_()

    _way: Way
    _is_released: bool


class Protections(tuple[Protection, ...]):
    """The protections that are in force."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON as `fallow protect --list --json` prints it."""
        from fallow.core.api import VERSION

        return {"version": VERSION, "protections": [one.to_dict() for one in self]}

    def __repr__(self) -> str:
        return f"<Protections {', '.join(str(one.id) for one in self) or 'none'}>"

    def _repr_html_(self) -> str:
        rows = [
            (str(one.id), one.subject, one.by, "" if one.until is None else f"{one.until:%Y-%m-%d %H:%M:%S}", one.why)
            for one in self
        ]
        return table("" if self else "nothing is protected", ("id", "subject", "by", "until (UTC)", "why"), rows)
