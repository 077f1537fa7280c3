"""Replace a file atomically: it is written beside its place, then moved there.

In a folder where others may make files, one may be there already under the name that we write to: a link of theirs to
a file of ours, or a file that would stay theirs. Such a one is refused, as the kernel does for sticky folders if it
is told to (protected_symlinks, protected_regular).
"""

import os
import stat
from contextlib import suppress

_FLAGS = os.O_WRONLY | os.O_CLOEXEC


def replace_file(path: str, text: str) -> None:
    """Write this text to the file, all of it or nothing; raise OSError if that fails.

    A link stays a link, and a file keeps its mode and its owner. A pipe or a device is written
    to as it is; so is a file in a folder where we may not make another. PermissionError if a stranger put it there.
    """
    data = text.encode("utf-8", "surrogateescape")
    folder, name = os.path.split(path)
    try:
        before: os.stat_result | None = os.lstat(path)
    except FileNotFoundError:
        before = None
    place, flags = os.path.join(os.path.realpath(folder), name), _FLAGS | os.O_NOFOLLOW
    if before is not None:
        _refuse_of_strangers(before, os.stat(folder or "."))
        if stat.S_ISLNK(before.st_mode):
            place, flags = os.path.realpath(path), _FLAGS
            before = os.stat(path) if os.path.exists(path) else None
    if before is not None and not stat.S_ISREG(before.st_mode):
        _write(os.open(path, flags), data, sync=False)
        return
    beside = os.path.join(os.path.dirname(place), f".{os.path.basename(place)[:200]}.{os.urandom(6).hex()}")
    try:
        fd = os.open(beside, _FLAGS | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except PermissionError:
        if before is None:
            raise
        _write(os.open(place, flags | os.O_TRUNC), data, sync=True)
        return
    try:
        if before is not None:
            with suppress(PermissionError):  # of another user, who lets us write to it
                os.fchown(fd, before.st_uid, before.st_gid)
            os.fchmod(fd, stat.S_IMODE(before.st_mode))
        _write(fd, data, sync=True)
        os.replace(beside, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def _refuse_of_strangers(found: os.stat_result, folder: os.stat_result) -> None:
    """Raise PermissionError for a link of a stranger, and for a file of one in a folder that all may write to."""
    of_stranger = found.st_uid not in (0, os.geteuid())
    is_link = stat.S_ISLNK(found.st_mode)  # also in a folder of theirs: it may lead to any file of ours
    if of_stranger and (is_link or (found.st_uid != folder.st_uid and folder.st_mode & stat.S_IWOTH)):
        raise PermissionError


def _write(fd: int, data: bytes, *, sync: bool) -> None:
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(fd)
