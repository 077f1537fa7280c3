"""Make sure that each user has one daemon, by a lock that the kernel frees however the daemon ends.

The file says in words which daemon runs; only the lock decides. No other user can open it: who could read it could
lock it, and keep the daemon from starting.
"""

import os
from contextlib import suppress

from fallow.actuators.files import ofd_locks
from fallow.actuators.files.own_folder import NAME_ANOTHER_SOCKET, own_folder
from fallow.core.errors import AlreadyRunning, NotPermitted
from fallow.core.units import printable

_NAME = "fallow.lock"
_BYTE = 0
_LONGEST_WORDS = 8192
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Instance:
    """The lock of the only daemon, for as long as it is open."""

    def __init__(self, folder: str, me: str) -> None:
        """Take the lock; raise AlreadyRunning, in the words of the daemon that has it, if there is one."""
        own_folder(folder, NAME_ANOTHER_SOCKET, 0o755)
        path = os.path.join(folder, _NAME)
        try:
            self._fd = os.open(path, _FLAGS, 0o600)
        except OSError as error:
            sentence = f"cannot use {path}, the daemon's lock: {error.strerror}"
            raise NotPermitted(sentence, NAME_ANOTHER_SOCKET) from None
        if not ofd_locks.take(self._fd, _BYTE):
            other = os.pread(self._fd, _LONGEST_WORDS, 0).decode(errors="replace")
            os.close(self._fd)
            raise AlreadyRunning(f"fallow up runs already: {printable(other)}")
        self.write(me)

    def write(self, me: str) -> None:
        """Write which daemon runs. On a full disk the lock works without it."""
        with suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, me.encode(errors="replace"), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._fd)
