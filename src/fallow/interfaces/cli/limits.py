"""When the system gives no more: which limit it was, and how to see it."""

import errno

_NO_THREAD = "can't start new thread"  # all that Python says of it


def limit_in_words(error: BaseException) -> str | None:
    """The limit that an error comes from; None if it comes from none."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EMFILE:
        return f"no more files can be opened: {_limit('NOFILE')} (ulimit -n shows it)"
    if number == errno.ENFILE:
        return "no more files can be opened: all that this machine allows are open (sysctl fs.file-max shows it)"
    if number == errno.EAGAIN or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD):
        return (
            f"no more processes or threads can be started: {_limit('NPROC')} (ulimit -u shows it), or memory is short"
        )
    if number == errno.ENOMEM or isinstance(error, MemoryError) or _could_not_be_loaded(error):
        return f"there is not enough memory: {_limit('AS')} (ulimit -v shows it)"
    return None


def _could_not_be_loaded(error: BaseException) -> bool:
    """A part that is there and that the loader or the compiler failed on, under a limit of memory."""
    import resource

    failed = isinstance(error, ImportError | SystemError) and not isinstance(error, ModuleNotFoundError)
    return failed and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _limit(name: str) -> str:
    import resource

    soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
    return "no limit is set for this process" if soft == resource.RLIM_INFINITY else f"the limit is {soft}"
