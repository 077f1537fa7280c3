"""Raise the limits of this process, so that many connections leave enough descriptors for the rest."""

import resource

_ENOUGH = 16_384  # more is not needed, and some programs that we start close each of them, one by one


def raise_own_limits() -> None:
    """Raise the number of open files to the hard limit, if allowed. Child processes inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
