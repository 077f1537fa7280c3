"""Handle Ctrl-C and SIGTERM for commands that must restore or print something before they end."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fallow.actuators.process.signals import die_of

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption(BaseException):
    """Unwinds the stack like KeyboardInterrupt, for each of the signals that end a program."""

    number: int | None = None
    _is_postponed = False

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Let a signal unwind the stack only after this block: what is begun and noted in it is never half done."""
        self._is_postponed = True
        try:
            yield
        finally:
            self._is_postponed = False
        if self.number is not None:
            raise self

    def come(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  as the signal module calls it
        """Handle a signal."""
        if self.number is None:
            self.number = number
            if not self._is_postponed:
                # Python 3.11.2 calls the handler of a second signal while the exception of the first is under way,
                # and fails with a SystemError. A signal that we send ourselves has all that have come handled before.
                signal.raise_signal(number)
                raise self


def unstoppable() -> None:
    """Ignore Ctrl-Z and SIGTTOU: a stopped fallow would leave a filler on a GPU that others need."""
    for number in (signal.SIGTSTP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)


def wait_for_input(fd: int) -> None:
    """Wait until the descriptor can be read; a signal that its handler raises for ends the wait at any moment.

    A plain read waits on if the signal comes after Python's last look at its flags and before the system call.
    """
    heard, told = os.pipe()
    for end in (heard, told):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    try:
        while fd not in select.select([fd, heard], [], [])[0]:
            os.read(heard, 64)
    finally:
        signal.set_wakeup_fd(before)
        os.close(told)
        os.close(heard)


def uninterrupted() -> None:
    """Ignore these signals until everything is restored: a terminal that closes sends two."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Unwind the block on the first such signal; then end by it, so that scripts stop too. After it all is as before.

    Another one that comes while the block is being unwound changes nothing: what restores something must not be
    broken off, and Python cannot make an exception in the middle of making one.
    """
    interruption = Interruption()
    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: known for number in _ENDING if (known := signal.getsignal(number)) in usual}
    try:
        try:
            for number in before:
                signal.signal(number, interruption.come)
            yield interruption
        finally:
            for number, known in before.items():
                if signal.getsignal(number) == interruption.come:
                    signal.signal(number, known)
    except Interruption as interrupted:
        ended_by = int(interrupted.number or signal.SIGTERM)
        for other in before:
            if signal.getsignal(other) in usual:
                signal.signal(other, signal.SIG_DFL)  # a second signal ends us at once
        die_of(ended_by)
        sys.exit(128 + ended_by)  # if the signal cannot end us, as for pid 1 of a container
