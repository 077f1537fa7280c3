"""Make sure that each user has one daemon, by a lock that the kernel frees however the daemon ends.

The file says which daemon runs; only the lock decides. After a crash the file excludes no daemon. Only its owner can
open the file: a user who could read it could lock it, and keep the daemon from starting.
"""

import json
import os
import stat
from contextlib import suppress

from fallow.actuators.files import ofd_locks
from fallow.actuators.files.own_folder import own_folder
from fallow.actuators.files.state_folder import prepared
from fallow.core.errors import AlreadyRunning, NotPermitted
from fallow.core.units import duration_for_people, printable
from fallow.core.value import value

_NAME = "fallow.lock"
_BYTE = 0
_LARGEST_LABEL = 8192
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_REMEDY = "name a folder of your own with FALLOW_SOCKET"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@value
class Running:
    """The daemon that runs, as it wrote into the file; None for what cannot be read."""

    pid: int | None = None
    user: str | None = None
    since_wall_s: float | None = None
    config: str | None = None

    def in_words(self, wall_s: float) -> str:
        """Return `pid 4711 of root, for 3h, with /etc/fallow/fallow.toml`."""
        parts = [
            "" if self.pid is None else f"pid {self.pid}" + ("" if self.user is None else f" of {self.user}"),
            "" if self.since_wall_s is None else f"for {duration_for_people(max(0.0, wall_s - self.since_wall_s))}",
            f"with {self.config}" if self.config else "without a config",
        ]
        return ", ".join(part for part in parts if part)


class Instance:
    """The lock of the only daemon, for as long as it is open."""

    def __init__(self, folder: str, me: Running, wall_s: float, name: str = _NAME) -> None:
        """Take the lock; raise AlreadyRunning, with the daemon that has it, if there is one."""
        self.said = own_folder(folder)
        """A message about the folder; None if there is nothing to say."""
        self._place = (folder, name)
        self._me = me
        self._fds = [_taken(os.path.join(folder, name), wall_s)]
        """The file that is locked, and before it those that were taken away."""
        self.write(me)

    @classmethod
    def of_history(cls, state_folder: str, me: Running, wall_s: float) -> "Instance":
        """Take the lock of those who write history there, wherever their sockets are: two would count all twice.

        Other hosts may share the folder, so it is one lock for each of them.
        """
        host = os.uname().nodename.replace("/", "-")
        return cls(prepared(state_folder), me, wall_s, f"history-{host}.lock")

    def keep(self, wall_s: float) -> None:
        """Lock the file again if it was taken away; raise AlreadyRunning if another daemon was faster.

        Where there is no room for it now, it is tried again the next time.
        """
        path = os.path.join(*self._place)
        if _is_at(self._fds[-1], path):
            return
        with suppress(NotPermitted, OSError):
            prepared(self._place[0])
            self._fds.append(_taken(path, wall_s))
            self.write(self._me)

    def write(self, me: Running) -> None:
        """Write which daemon runs. On a full disk the lock works without it."""
        self._me = me
        label = {"pid": me.pid, "user": me.user, "since": me.since_wall_s, "config": me.config}
        try:
            os.ftruncate(self._fds[-1], 0)
            os.pwrite(self._fds[-1], json.dumps(label).encode(), 0)
        except OSError:
            return

    def close(self) -> None:
        """Release the lock."""
        for fd in self._fds:
            os.close(fd)


def _taken(path: str, wall_s: float) -> int:
    """Return the lock file, locked; raise AlreadyRunning, with the daemon that has it, if there is one."""
    fd = _open(path)
    try:
        is_ours = ofd_locks.take(fd, _BYTE) and _is_at(fd, path)
        other = _read(fd)
    except BaseException:
        os.close(fd)
        raise
    if is_ours:
        return fd
    os.close(fd)
    raise AlreadyRunning(f"fallow up runs already: {other.in_words(wall_s)}")


def _open(path: str) -> int:
    """Open the lock file, which no other user can open."""
    try:
        fd = os.open(path, _FLAGS | os.O_NONBLOCK, 0o600)
        if _is_only_ours(fd):
            return fd
        os.close(fd)
        os.unlink(path)  # another user can lock it, so it cannot be used
        return os.open(path, _FLAGS | os.O_EXCL, 0o600)
    except OSError as error:
        raise NotPermitted(f"cannot use {path}, the daemon's lock: {error.strerror}", _REMEDY) from None


def _is_only_ours(fd: int) -> bool:
    """Return whether no other user can have locked it, or only a process that could write to it: a daemon."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        return False
    lock = ofd_locks.other(fd, _BYTE, _BYTE)
    return not found.st_mode & _OTHERS or (lock is not None and not lock.shared)


def _is_at(fd: int, path: str) -> bool:
    """Return whether the file is still in place: another daemon that starts now may have replaced it."""
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
