"""The limits of this process: as many descriptors as we may have, so that a crowd at the doors takes none of ours."""

import resource

_ENOUGH = 16_384  # more helps nobody, and some programs that we start would close each of them, one by one


def raise_own_limits() -> None:
    """Open files up to the hard limit, where that is allowed. What we start inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
