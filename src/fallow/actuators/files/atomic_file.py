"""Replace a file atomically: it is written beside its place, then moved there."""

import os
import stat
from contextlib import suppress


def replace_file(path: str, text: str) -> None:
    """Write this text to the file, all of it or nothing; raise OSError if that fails.

    A link stays a link, and a file keeps its mode and its owner. A pipe or a device is written
    to as it is; so is a file in a folder where we may not make another.
    """
    data = text.encode("utf-8", "surrogateescape")
    try:
        before: os.stat_result | None = os.stat(path)
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        _write(os.open(path, os.O_WRONLY | os.O_CLOEXEC), data, sync=False)
        return
    place = os.path.realpath(path)
    beside = os.path.join(os.path.dirname(place), f".{os.path.basename(place)[:200]}.{os.urandom(6).hex()}")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except PermissionError:
        if before is None:
            raise
        _write(os.open(place, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC), data, sync=True)
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


def _write(fd: int, data: bytes, *, sync: bool) -> None:
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(fd)
