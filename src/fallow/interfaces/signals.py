"""Ctrl-C and kill for verbs that have something to put back, or to say, before they end of it."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fallow.actuators.process.signals import die_of

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupted(BaseException):
    """Unwinds like KeyboardInterrupt, for each of the signals that end a program."""


def unstoppable() -> None:
    """Ctrl-Z and a terminal that is busy do not stop us: whoever comes would wait for a filler that nobody ends."""
    for number in (signal.SIGTSTP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)


def uninterrupted() -> None:
    """From now on such signals change nothing, until all is put back: a terminal that closes sends two."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, such a signal unwinds; behind it, the process ends of it all the same, so that scripts stop too."""

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  as the signal module calls it
        raise _Interrupted(number)

    for number in _ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupt)
    try:
        yield
    except _Interrupted as interrupted:
        number = interrupted.args[0]
        for other in _ENDING:
            if signal.getsignal(other) is interrupt:
                signal.signal(other, signal.SIG_DFL)  # whoever insists now is obeyed at once
        die_of(number)
        sys.exit(128 + number)  # where one cannot die of it, as pid 1 of a container
