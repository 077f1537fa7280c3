"""A pipe for the signals that ask a process to leave: a readable descriptor instead of an interruption."""

import os
import signal
from types import FrameType

LEAVING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SignalPipe:
    """Makes `fd` readable at SIGTERM, SIGINT and SIGHUP, which do nothing else; ignored signals stay ignored."""

    def __init__(self) -> None:
        self.fd, self._written = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._written, False)
        signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        for number in LEAVING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _nothing)

    def numbers(self) -> list[int]:
        """Return the signals that have come since the last call, in their order."""
        try:
            return [number for number in os.read(self.fd, 64) if number in LEAVING]
        except BlockingIOError:
            return []


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python writes the number to the wake-up descriptor."""
