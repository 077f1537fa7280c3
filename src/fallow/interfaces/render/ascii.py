"""Spell fallow's special characters in ASCII where a stream cannot encode them, so that no locale causes a crash."""

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
    """Return what replaces characters that cannot be encoded; a question mark for those that fallow does not use."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SPELLED.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


def encoded(text: str, encoding: str) -> bytes:
    """Return the text in that encoding, whatever it contains."""
    codecs.register_error(_HANDLER, spell)
    return text.encode(encoding, _HANDLER)


def spell_out(*streams: TextIO | TextIOBase | None) -> None:
    """Set these streams so that no character makes writing fail."""
    codecs.register_error(_HANDLER, spell)
    for stream in streams:
        change = getattr(stream, "reconfigure", None)
        if change is not None:
            change(errors=_HANDLER)
