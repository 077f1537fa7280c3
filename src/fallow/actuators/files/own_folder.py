"""Folders of fallow that only their owner can change. One that others could change is refused, and never repaired."""

import os
import stat
from contextlib import suppress

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.shell_word import shell_word

NAME_ANOTHER_STATE = "set FALLOW_STATE_DIR to a folder of yours"
NAME_ANOTHER_SOCKET = "name a folder of your own with FALLOW_SOCKET"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def own_folder(path: str, way: str = NAME_ANOTHER_STATE, mode: int = 0o700, *, make: bool = True) -> str:
    """Make the folder if it is missing; return its path. Raise FallowError if it is not ours alone to write to.

    `way`: what to do instead.
    """
    try:
        if make:
            os.makedirs(path, mode, exist_ok=True)
        found = os.lstat(path)
    except FileExistsError:
        raise FallowError(f"{path} cannot be used: it is no folder", way) from None
    except OSError as error:
        kind = NotPermitted if isinstance(error, PermissionError) else FallowError
        raise kind(f"{path} cannot be used: {error.strerror}", way) from None
    if not stat.S_ISDIR(found.st_mode):
        raise NotPermitted(f"{path} cannot be used: it is a symbolic link or no folder", way)
    if found.st_uid != os.geteuid():
        raise NotPermitted(f"{path} belongs to user {found.st_uid}, and not to us", way)
    if found.st_mode & _OTHERS_WRITE:
        sentence = f"others may write to {path}, and change what is kept in it"
        raise NotPermitted(sentence, f"{way}, or: chmod go-w {shell_word(path)}")
    return path


def private_file(folder: str, name: str) -> str:
    """Return the path of a file there that only we can read; made if it is missing, and never opened.

    Opening and closing a database beside SQLite would drop the locks that SQLite has on it.
    """
    path = os.path.join(folder, name)
    with suppress(FileExistsError):
        os.mknod(path, stat.S_IFREG | 0o600)
    return path
