"""What a stream can show: fallow's special characters, spelled in ASCII where it cannot encode them, and colour."""

import codecs
from collections.abc import Mapping
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
    "█": "#",
    "░": ".",
}
_DUMB = ("dumb", "unknown", "")


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


def is_dumb(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether nothing that was written can be overwritten: a pipe, a file, or a terminal without that."""
    return not stream.isatty() or environ.get("TERM", "dumb") in _DUMB


def shows_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to write in colour: NO_COLOR forbids it, FORCE_COLOR demands it, else a terminal decides."""
    if "NO_COLOR" in environ:
        return False
    return environ.get("FORCE_COLOR", "") not in ("", "0") or not is_dumb(stream, environ)
