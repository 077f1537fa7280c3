"""Whether a stream can be drawn on, and in colour."""

from collections.abc import Mapping

from fallow.core.annotations import TextIO

_DUMB = ("dumb", "unknown", "")


def is_dumb(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether nothing that was written can be overwritten: a pipe, a file, or a terminal without that."""
    return not stream.isatty() or environ.get("TERM", "dumb") in _DUMB


def shows_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to write in colour: NO_COLOR forbids it, FORCE_COLOR demands it, else a terminal decides."""
    if "NO_COLOR" in environ:
        return False
    return environ.get("FORCE_COLOR", "") not in ("", "0") or not is_dumb(stream, environ)
