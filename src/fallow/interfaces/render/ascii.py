"""Our own letters on a stream that has none of them: spelled in ASCII, so that no locale ever ends us."""

import codecs
from io import TextIOBase
from typing import TextIO

_HANDLER = "fallow-letters"
_SPELLED = {
    "…": "...",
    "–": "-",
    "—": "-",
    "×": "x",
    "·": "-",
    "→": "->",
    "─": "-",
    "│": "|",
    "├": "|",
    "└": "`",
    "°": "",
    "€": "EUR",
}


def spell(error: UnicodeError) -> tuple[str, int]:
    """What stands for letters that cannot be encoded; those of others are question marks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SPELLED.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def encoded(text: str, encoding: str) -> bytes:
    """The text in that encoding, whatever is in it."""
    codecs.register_error(_HANDLER, spell)
    return text.encode(encoding, _HANDLER)


def spell_out(*streams: TextIO | TextIOBase | None) -> None:
    """From now on nothing that is written there fails because of its letters."""
    codecs.register_error(_HANDLER, spell)
    for stream in streams:
        change = getattr(stream, "reconfigure", None)
        if change is not None:
            change(errors=_HANDLER)
