"""Explain what of the system an error comes from: a limit, and how to see it, or a folder that is gone."""

import errno
import os

_NO_THREAD = "can't start new thread"  # Python says no more than this


def limit_in_words(error: BaseException) -> str | None:
    """Return the limit, or the folder, that an error comes from; None if it comes from none."""
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
    if isinstance(error, FileNotFoundError) and _is_in_no_folder():
        return "the folder that you are in is gone; change to another one"
    return None


def _is_in_no_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _could_not_be_loaded(error: BaseException) -> bool:
    """Return whether an installed module failed to load while the memory of this process is limited."""
    import resource

    failed = isinstance(error, ImportError | SystemError) and not isinstance(error, ModuleNotFoundError)
    return failed and resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _limit(name: str) -> str:
    import resource

    soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
    return "no limit is set for this process" if soft == resource.RLIM_INFINITY else f"the limit is {soft}"
