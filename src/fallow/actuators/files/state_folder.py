"""The folder of one user's journal, history and stacks."""

import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress

from fallow.actuators.files.own_folder import NAME_ANOTHER_STATE, own_folder
from fallow.core.errors import FallowError

_OF_ROOT = "/var/lib/fallow"


def path_of(environ: Mapping[str, str]) -> str:
    """Return FALLOW_STATE_DIR, else as root /var/lib/fallow, else a folder in the home of the user."""
    named = environ.get("FALLOW_STATE_DIR")
    if named:
        return os.path.abspath(named)
    if os.geteuid() == 0:
        return _OF_ROOT  # whatever HOME is: sudo -E keeps that of its caller
    base = environ.get("XDG_STATE_HOME", "")
    return f"{base}/fallow" if base.startswith("/") else f"{_home(environ)}/.local/state/fallow"


def prepared(path: str, *, make: bool = True) -> str:
    """Make the folder if it is missing; return its path. Raise FallowError if it is not ours alone to write to."""
    return own_folder(path, NAME_ANOTHER_STATE, make=make)


def why_unusable(path: str) -> str | None:
    """Return why nothing can be kept there, though nothing is there yet; None if it can be made, or is there."""
    at = path
    while not os.path.lexists(at) and at != "/":
        at = os.path.dirname(at)
    if os.access(at, os.W_OK | os.X_OK):
        return None
    return f"{at} is not yours to write" if at == path else f"{at} is not yours to write, and {path} is not there"


def private_file(folder: str, name: str) -> str:
    """Return the path of a file there that only we can read; made if it is missing, and never opened.

    Opening and closing a database beside SQLite would drop the locks that SQLite has on it.
    """
    path = os.path.join(folder, name)
    with suppress(FileExistsError):
        os.mknod(path, stat.S_IFREG | 0o600)
    return path


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        with suppress(KeyError):
            home = pwd.getpwuid(os.geteuid()).pw_dir
    if home.startswith("/"):
        return home.rstrip("/")
    sentence = f"there is nowhere to keep a journal: HOME is not set, and user {os.geteuid()} has no home"
    raise FallowError(sentence, NAME_ANOTHER_STATE)
