"""Set the limits of this process: descriptors enough for many connections, and one heap for all threads."""

import ctypes
import resource

_ENOUGH = 16_384  # more is not needed, and some programs that we start close each of them, one by one
_M_ARENA_MAX = -8


def raise_own_limits() -> None:
    """Raise the number of open files to the hard limit, if allowed. Child processes inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def share_one_heap() -> None:
    """Let all threads take memory from one heap; to be called before there are any.

    By default glibc gives each thread one of its own, so that they need not wait for each other. Python's threads
    never run at the same time, and what one has given back no other could use.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other C libraries have one heap, or none that can be told
        mallopt(_M_ARENA_MAX, 1)
