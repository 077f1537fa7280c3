"""The folder of one user's journal, history and stacks: it belongs to that user, and nobody else may write to it."""

import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.shell_word import shell_word

OWN_FOLDER = "set FALLOW_STATE_DIR to a folder of yours"
_OF_ROOT = "/var/lib/fallow"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


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
    try:
        if make:
            _make(path)
        found = os.lstat(path)
    except OSError as error:
        raise FallowError(f"{path} cannot be used: {error.strerror}", OWN_FOLDER) from None
    if not stat.S_ISDIR(found.st_mode):
        what = "a symbolic link, which fallow does not follow" if stat.S_ISLNK(found.st_mode) else "no folder"
        raise FallowError(f"{path} cannot be used: it is {what}", OWN_FOLDER)
    if found.st_uid != os.geteuid():
        raise NotPermitted(f"{path} belongs to {_name_of(found.st_uid)}, not to us; {OWN_FOLDER}")
    if found.st_mode & _OTHERS_WRITE:
        raise NotPermitted(
            f"others may write to {path}, and change what is kept in it; try: chmod go-w {shell_word(path)}"
        )
    return path


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
    if home.startswith("/"):
        return home.rstrip("/")
    with suppress(KeyError):
        found = pwd.getpwuid(os.geteuid()).pw_dir
        if found.startswith("/"):
            return found
    raise FallowError(
        f"there is nowhere to keep a journal: HOME is not set, and user {os.geteuid()} has no home", OWN_FOLDER
    )


def _make(path: str) -> None:
    """Make the folder, and those above it that are missing, for us alone."""
    if os.path.lexists(path):
        return
    _make(os.path.dirname(path))
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
