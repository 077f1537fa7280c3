"""Watch files through inotify: an open of a device file, or a write to a claim, is reported at once.

inotify reports an open of `/dev/nvidiaN` within 2 ms of a program's first CUDA call, more than 100 ms before its
first allocation. It does not say which process it was, and monitors open the file too. So it is a reason to look,
and no proof.
"""

import os
from errno import ENOENT, ENOSPC

from inotify_simple import INotify, flags

from fallow.core.value import value

_CLOSED = flags.CLOSE_WRITE | flags.CLOSE_NOWRITE


@value
class FileEvent:
    """The names of what was opened or written, and of what was closed."""

    came: frozenset[str]
    left: frozenset[str]


class FileEvents:
    """Watches files and folders, each under a name."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._why_not: str | None = None
        self._inotify: INotify | None = None
        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            self._why_not = f"inotify: {error.strerror}"

    @property
    def fds(self) -> tuple[int, ...]:
        """Return the descriptors that become readable when something happened."""
        return () if self._inotify is None else (self._inotify.fileno(),)

    def watch_opens(self, name: str, path: str) -> str | None:
        """Watch opens and closes of a file; return why that is impossible, or None."""
        return self._listen(name, path, flags.OPEN | _CLOSED)

    def watch_writes(self, name: str, path: str) -> str | None:
        """Watch writes to files of a folder; return why that is impossible, or None."""
        return self._listen(name, path, flags.MODIFY)

    def read(self) -> FileEvent:
        """Return everything that happened since the last time."""
        if self._inotify is None:
            return FileEvent(frozenset(), frozenset())
        came: set[str] = set()
        left: set[str] = set()
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                came.update(self._names.values())  # more happened than the kernel keeps
            elif event.wd in self._names:
                (left if event.mask & _CLOSED else came).add(self._names[event.wd])
        return FileEvent(frozenset(came), frozenset(left))

    def close(self) -> None:
        """Stop watching."""
        if self._inotify is not None:
            self._inotify.close()

    def _listen(self, name: str, path: str, mask: int) -> str | None:
        if self._inotify is None:
            return self._why_not
        try:
            self._names[self._inotify.add_watch(path, mask)] = name
        except OSError as error:
            if error.errno == ENOENT:
                return f"no {os.path.basename(path)} in {os.path.dirname(path)}"
            if error.errno == ENOSPC:
                return "this user's share of inotify watches is used up"
            return f"{path}: {os.strerror(error.errno or 0)}"
        return None
