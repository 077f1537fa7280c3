"""Ears on files: whoever opens a device node, or writes to a claim, is heard at once.

inotify tells of an open of `/dev/nvidiaN` within 2 ms of a program's first CUDA call, more than 100 ms before its
first allocation. It does not tell who: monitors open the node too. So it is a reason to look, and no proof.
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
    """Listens to files and folders, each under a name."""

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
        """What becomes readable when something is heard."""
        return () if self._inotify is None else (self._inotify.fileno(),)

    def listen_for_visits(self, name: str, path: str) -> str | None:
        """Hear whoever opens or closes the file; else why that cannot be."""
        return self._listen(name, path, flags.OPEN | _CLOSED)

    def listen_for_writes(self, name: str, path: str) -> str | None:
        """Hear whoever writes to a file of the folder; else why that cannot be."""
        return self._listen(name, path, flags.MODIFY)

    def heard(self) -> FileEvent:
        """All that was heard since the last time."""
        if self._inotify is None:
            return FileEvent(frozenset(), frozenset())
        came: set[str] = set()
        left: set[str] = set()
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                came.update(self._names.values())  # so much happened that some was lost
            elif event.wd in self._names:
                (left if event.mask & _CLOSED else came).add(self._names[event.wd])
        return FileEvent(frozenset(came), frozenset(left))

    def close(self) -> None:
        """Stop listening."""
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
