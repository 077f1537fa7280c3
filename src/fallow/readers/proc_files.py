"""Read files of /proc that other users fill, up to a limit.

A command line can be megabytes long, and so can an environment; both are read through the memory of their process.
"""

import os

from fallow.core.errors import SHORTAGES

MOST_OF_COMMAND = 4096
_ONE_READ = 4096
_MOST = 1 << 20
_MOST_OF_ENVIRON = 8 << 20  # the kernel gives arguments and environment 6 MiB in all, so nothing is beyond
_WANTED = (b"FALLOW_", b"CUDA_")


def pass_on_shortage(error: OSError) -> None:
    """Raise an error about a lack of descriptors or memory again; any other means that the file cannot be read."""
    if error.errno in SHORTAGES:
        raise error


def read_start(path: str, most: int = _ONE_READ) -> bytes | None:
    """Return the first bytes of a file, from one read; None if it is gone or may not be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        pass_on_shortage(error)
        return None
    try:
        return os.read(fd, most)
    except OSError as error:
        pass_on_shortage(error)
        return None
    finally:
        os.close(fd)


def read_whole(path: str) -> bytes | None:
    """Return all lines of a file that only the kernel writes; None if it is gone or may not be read."""
    try:
        with open(path, "rb") as file:
            return file.read(_MOST)
    except OSError as error:
        pass_on_shortage(error)
        return None


def read_variables(path: str, wanted: tuple[bytes, ...] = _WANTED) -> dict[str, str] | None:
    """Return the variables of an environment that begin so; those for fallow and CUDA."""
    try:
        with open(path, "rb") as file:
            entries = file.read(_MOST_OF_ENVIRON).split(b"\0")
    except OSError as error:
        pass_on_shortage(error)
        return None
    pairs = (entry.partition(b"=") for entry in entries if entry.startswith(wanted))
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
