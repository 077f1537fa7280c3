"""Find the daemon's socket: FALLOW_SOCKET, else the machine's in /run/fallow, else the user's own.

Root asks no user's own: su and sudo may keep XDG_RUNTIME_DIR, and a user's daemon tells root what that user likes.
"""

import os
from collections.abc import Mapping

_MACHINE = "/run/fallow/fallow.sock"


def own_socket(environ: Mapping[str, str]) -> str | None:
    """Return where a daemon of this user listens; None if there is no safe place for it."""
    named = environ.get("FALLOW_SOCKET")
    if named:
        return named
    return _of_user(environ) if os.geteuid() else _MACHINE


def sockets_to_ask(environ: Mapping[str, str]) -> list[str]:
    """Return where to look for a daemon, in order: the machine's sees and does more than a user's own."""
    named = environ.get("FALLOW_SOCKET")
    places = [named] if named else [_MACHINE, _of_user(environ)]
    return [place for place in places if place]


def _of_user(environ: Mapping[str, str]) -> str | None:
    base = environ.get("XDG_RUNTIME_DIR") if os.geteuid() else None
    return f"{base}/fallow/fallow.sock" if base else None
