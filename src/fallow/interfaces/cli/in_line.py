"""A launch that waits in line leaves it before a signal ends it."""

from contextlib import AbstractContextManager, nullcontext

from fallow.engine.allocate.pick import Request


def leaves_line(request: Request) -> AbstractContextManager[object]:
    """Return a block in which Ctrl-C, SIGTERM and SIGHUP unwind a launch that waits; others they end at once."""
    if request.wait_s is None:
        return nullcontext()
    from fallow.interfaces.signals import interruptible

    return interruptible()
