"""A socket on which a keeper says how long its filler may stay without memory, and the filler that it is free.

A newcomer that creates its context waits for the driver while another context is torn down. So a filler that frees
its memory first and ends a moment later delays it less than one that ends at once. Only a filler that knows the
socket uses it. FALLOW_YIELD_LINE names it by descriptor and inode, since a program in between may have closed it
and opened something else there.
"""

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress

VARIABLE = "FALLOW_YIELD_LINE"
_LONGEST_STAY_S = 10.0


class YieldLine:
    """The filler's end of the socket."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "YieldLine | None":
        """Return the socket that the environment names, if it is still the one that was given."""
        number, _, inode = environ.get(VARIABLE, "").partition(":")
        if not (number.isdecimal() and inode.isdecimal() and len(number) < 8):
            return None
        try:
            found = os.fstat(int(number))
            if not stat.S_ISSOCK(found.st_mode) or str(found.st_ino) != inode:
                return None
            os.set_inheritable(int(number), False)
            return cls(socket.socket(fileno=int(number)))
        except OSError:
            return None

    def may_stay_s(self) -> float:
        """Return how long we may stay after freeing the memory; 0 if the keeper did not say."""
        try:
            said = self._line.recv(64, socket.MSG_DONTWAIT)
            return min(_LONGEST_STAY_S, max(0.0, float(said)))
        except (OSError, ValueError):
            return 0.0

    def close(self) -> None:
        """Close the socket."""
        self._line.close()

    def tell_freed(self) -> None:
        """Report that all memory is free."""
        with suppress(OSError):
            self._line.send(b".", socket.MSG_DONTWAIT)


class KeeperLine:
    """The keeper's end of the socket, and until the filler has started also the filler's."""

    def __init__(self) -> None:
        self._line, self._its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._its.set_inheritable(True)
        number = self._its.fileno()
        self.gives = {VARIABLE: f"{number}:{os.fstat(number).st_ino}"}
        """The variable for the filler's environment."""

    @property
    def fd(self) -> int:
        """Return the descriptor that becomes readable when the filler has sent something."""
        return self._line.fileno()

    def started(self) -> None:
        """Close the filler's end here, after it has started."""
        self._its.close()

    def close(self) -> None:
        """Close the socket."""
        self._line.close()

    def let_stay(self, seconds: float) -> None:
        """Send, before the filler is asked to leave, how long it may stay without its memory."""
        with suppress(OSError):
            self._line.send(f"{seconds:g}".encode(), socket.MSG_DONTWAIT)

    def read(self) -> bool | None:
        """Return whether the filler says that its memory is free; None if the other end is closed."""
        try:
            said = self._line.recv(64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True if said else None
