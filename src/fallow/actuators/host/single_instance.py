"""Make sure that each user has one daemon, by a lock that the kernel frees however the daemon ends.

The file says which daemon runs; only the lock decides. After a crash the file excludes no daemon. Only its owner can
open the file: a user who could read it could lock it, and keep the daemon from starting.
"""

import json
import os
import stat
from contextlib import suppress

from fallow.actuators.files import ofd_locks
from fallow.actuators.files.own_folder import NAME_ANOTHER_SOCKET, own_folder
from fallow.core.errors import AlreadyRunning, NotPermitted
from fallow.core.units import duration_for_people, printable
from fallow.core.value import value

_NAME = "fallow.lock"
_BYTE = 0
_LARGEST_LABEL = 8192
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_REMEDY = "name a folder of your own with FALLOW_SOCKET"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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

    def __init__(self, folder: str, me: Running, wall_s: float) -> None:
        """Take the lock; raise AlreadyRunning, with the daemon that has it, if there is one."""
        own_folder(folder, NAME_ANOTHER_SOCKET, 0o755)
        self._fd = _open(os.path.join(folder, _NAME))
        if not ofd_locks.take(self._fd, _BYTE):
            other = _read(self._fd)
            os.close(self._fd)
            raise AlreadyRunning(f"fallow up runs already: {other.in_words(wall_s)}")
        self.write(me)

    def write(self, me: Running) -> None:
        """Write which daemon runs. On a full disk the lock works without it."""
        label = {"pid": me.pid, "user": me.user, "since": me.since_wall_s, "config": me.config}
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(label).encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._fd)


def _open(path: str) -> int:
    """Open the lock file, which no other user can open."""
    try:
        fd = os.open(path, _FLAGS, 0o600)
    except OSError as error:
        raise NotPermitted(f"cannot use {path}, the daemon's lock: {error.strerror}", _REMEDY) from None
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        os.close(fd)
        raise NotPermitted(f"others can open {path}, the daemon's lock; remove it", _REMEDY)
    return fd


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
