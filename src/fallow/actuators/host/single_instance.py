"""One daemon for each user scope: a lock that the kernel frees however its holder dies.

Who runs is written into the file; the lock is the truth. What a crash leaves is a file that binds nobody. Only its
owner opens the file: whoever could read it could lock it, and a lock of theirs would keep the daemon from starting.
"""

import json
import os
import stat

from fallow.actuators.files import ofd_locks
from fallow.actuators.files.own_folder import own_folder
from fallow.core.errors import AlreadyRunning, NotPermitted
from fallow.core.units import duration_for_people, printable
from fallow.core.value import value

_NAME = "fallow.lock"
_BYTE = 0
_LARGEST_LABEL = 8192
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@value
class Running:
    """Who runs, as they wrote it down; None where that cannot be read."""

    pid: int | None = None
    user: str | None = None
    since_wall_s: float | None = None
    config: str | None = None

    def in_words(self, wall_s: float) -> str:
        """`pid 4711 of root, for 3h, with /etc/fallow/fallow.toml`."""
        parts = [
            "" if self.pid is None else f"pid {self.pid}" + ("" if self.user is None else f" of {self.user}"),
            "" if self.since_wall_s is None else f"for {duration_for_people(max(0.0, wall_s - self.since_wall_s))}",
            f"with {self.config}" if self.config else "without a config",
        ]
        return ", ".join(part for part in parts if part)


class Instance:
    """The only daemon of this scope, for as long as it is open."""

    def __init__(self, folder: str, me: Running, wall_s: float) -> None:
        """AlreadyRunning, with who it is, if there is one."""
        self.said = own_folder(folder)
        """What people should know of the folder; None if there is nothing."""
        path = os.path.join(folder, _NAME)
        self._fd = _open(path)
        if not ofd_locks.take(self._fd, _BYTE) or not _is_at(self._fd, path):
            other = _read(self._fd)
            os.close(self._fd)
            raise AlreadyRunning(f"fallow up runs already: {other.in_words(wall_s)}")
        self.write(me)

    def write(self, me: Running) -> None:
        """Say who runs. A disk that is full takes the label, not the lock."""
        label = {"pid": me.pid, "user": me.user, "since": me.since_wall_s, "config": me.config}
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(label).encode(), 0)
        except OSError:
            return

    def close(self) -> None:
        """Let the next one in."""
        os.close(self._fd)


def _open(path: str) -> int:
    """The file of the lock, which nobody else can open."""
    try:
        fd = os.open(path, _FLAGS | os.O_NONBLOCK, 0o600)
        if _is_only_ours(fd):
            return fd
        os.close(fd)
        os.unlink(path)  # somebody else can lock it, so it is no lock of ours
        return os.open(path, _FLAGS | os.O_EXCL, 0o600)
    except OSError as error:
        raise NotPermitted(f"cannot use {path}, the daemon's lock: {error.strerror}") from None


def _is_only_ours(fd: int) -> bool:
    """Whether nobody else can have locked it, or somebody has who must have been able to write to it: a daemon."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        return False
    lock = ofd_locks.other(fd, _BYTE, _BYTE)
    return not found.st_mode & _OTHERS or (lock is not None and not lock.shared)


def _is_at(fd: int, path: str) -> bool:
    """Whether the file is still there: another who starts at this moment may have put theirs in its place."""
    try:
        return os.fstat(fd).st_ino == os.lstat(path).st_ino
    except OSError:
        return False


def _read(fd: int) -> Running:
    try:
        label = json.loads(os.pread(fd, _LARGEST_LABEL, 0))
        config = label["config"]
        return Running(
            int(label["pid"]),
            printable(str(label["user"])),
            float(label["since"]),
            None if config is None else printable(str(config)),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Running()
