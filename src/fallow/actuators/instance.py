"""One daemon for each user scope: a lock that the kernel frees however its holder dies.

Who runs is written into the file for people to read; the lock is the truth. What a crash leaves is a file that binds
nobody.
"""

import json
import os

from fallow.actuators import locks
from fallow.core.errors import AlreadyRunning, NotPermitted
from fallow.core.units import duration_for_people, printable
from fallow.core.value import value

_NAME = "fallow.lock"
_BYTE = 0
_LARGEST_LABEL = 8192


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
        self._fd = _open(folder)
        if not locks.take(self._fd, _BYTE):
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


def running(folder: str) -> Running | None:
    """Who runs in this scope; None if nobody does."""
    try:
        fd = os.open(os.path.join(folder, _NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if locks.other(fd, _BYTE, _BYTE) is None else _read(fd)
    finally:
        os.close(fd)


def _open(folder: str) -> int:
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(os.path.join(folder, _NAME), flags, 0o644)
    except OSError as error:
        raise NotPermitted(f"cannot use {folder}, where the daemon's lock is: {error.strerror}") from None


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
