"""Being asked to leave, by whoever may: a readable descriptor instead of a signal that interrupts."""

import os
import signal
from types import FrameType

LEAVING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SignalPipe:
    """From now on SIGTERM, Ctrl-C and a hang-up make `fd` readable and do nothing else; what was ignored stays so."""

    def __init__(self) -> None:
        self.fd, self._written = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._written, False)
        signal.set_wakeup_fd(self._written, warn_on_full_buffer=False)
        for number in LEAVING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _nothing)

    def fetch(self) -> int:
        """How many signals have come since the last time."""
        return len(self.numbers())

    def numbers(self) -> list[int]:
        """The signals that have come since the last time, in their order."""
        try:
            return [number for number in os.read(self.fd, 64) if number in LEAVING]
        except BlockingIOError:
            return []


def _nothing(number: int, frame: FrameType | None) -> None:
    """The wake-up through the descriptor is all that is wanted."""
