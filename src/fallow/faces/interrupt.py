"""Ctrl-C for verbs that have something to put back, or to say, before they end of it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from fallow.actuators.processes import die_of


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, Ctrl-C unwinds; behind it, the process ends of SIGINT all the same, so that scripts stop too."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        die_of(signal.SIGINT)
