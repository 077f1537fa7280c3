"""The launches that wait for GPUs, in order of arrival: one file each, which its launch keeps locked.

    wait-00000012345678901234-4711   mode 0644; its name is the time of arrival in nanoseconds since boot, and a pid
    4711 80921 1763598000123 train   its first line is a note, as in a GPU's file
    run                              or pick, which keeps nobody from a GPU
    GPU-…                            the GPUs that would do, one a line

A launch is in line while byte 0 of its file is locked, so one that ends leaves the line, however it ends. Ticket and
lock are made inside the gate of the folder, and the file can be read by others only once it is locked. A user's next
launch removes what a killed one has left. The order is a courtesy: only the claim excludes.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from fallow.actuators.claims.claims import understood, written
from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.files import ofd_locks
from fallow.core.errors import FallowError
from fallow.core.ports import Clock
from fallow.core.reservations import Note, Waiter

_PREFIX = "wait-"
LAST = "~"
"""A ticket after all others."""
_MOST = 1000
_MOST_BYTES = 65536
_COMPLETE = 0o044
_POLL_S = 0.05


class Place:
    """A place in the line, until it is closed."""

    def __init__(
        self, folder: ClaimFolder, clock: Clock, note: Note, gpus: Iterable[str], *, is_pick: bool = False
    ) -> None:
        self._folder = folder
        self._head = written(note) + (b"pick\n" if is_pick else b"run\n")
        self._content = b""
        folder.demand_change()
        with folder.gate(clock):
            self.ticket = f"{_PREFIX}{int(clock.monotonic_s() * 1e9):020}-{os.getpid()}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                self._fd = os.open(self.ticket, flags, 0o600, dir_fd=folder.fd)
            except OSError as error:
                raise _no_place(folder, error) from None
            try:
                ofd_locks.take(self._fd, 0)
                self.want(gpus)
                os.fchmod(self._fd, 0o644)
            except BaseException:
                self.close()
                raise

    def want(self, gpus: Iterable[str]) -> None:
        """Say which GPUs would do; new ones may have appeared."""
        content = self._head + "".join(f"{uuid}\n" for uuid in sorted(gpus)).encode()
        if content == self._content:
            return
        try:
            os.pwrite(self._fd, content, 0)
            os.ftruncate(self._fd, len(content))
        except OSError as error:
            raise _no_place(self._folder, error) from None
        self._content = content

    def close(self) -> None:
        """Leave the line."""
        with suppress(OSError):
            os.unlink(self.ticket, dir_fd=self._folder.fd)
        os.close(self._fd)


def _no_place(folder: ClaimFolder, error: OSError) -> FallowError:
    return FallowError(f"cannot wait in line in {folder.path}: {error.strerror}; without --wait no place is needed")


def waiting(folder: ClaimFolder, before: str = LAST) -> Iterator[Waiter]:
    """Yield the launches that wait and came before a ticket, first come first; remove what is left of our own."""
    tickets = sorted(name for name in folder.names() if name.startswith(_PREFIX) and name < before)
    for ticket in tickets[:_MOST]:
        with suppress(OSError, ValueError):  # it has left, or it is none of ours
            fd = os.open(ticket, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.fd)
            try:
                facts = os.fstat(fd)
                if not stat.S_ISREG(facts.st_mode):
                    continue
                if ofd_locks.held(fd, 0):
                    yield _waiter(ticket, facts.st_uid, os.pread(fd, _MOST_BYTES, 0))
                elif facts.st_uid == os.geteuid() and facts.st_mode & _COMPLETE:
                    os.unlink(ticket, dir_fd=folder.fd)
            finally:
                os.close(fd)


def _waiter(ticket: str, uid: int, content: bytes) -> Waiter:
    lines = [*content.splitlines(), b"", b""]
    came_s = int(ticket.split("-")[1]) / 1e9
    gpus = frozenset(uuid.decode(errors="replace") for uuid in lines[2:] if uuid)
    return Waiter(ticket, came_s, uid, understood(lines[0]), gpus, lines[1] == b"pick")


class FolderWatch:
    """Watches the claim folder for a file that is closed: a claim ended, or a launch left the line."""

    def __init__(self, folder: ClaimFolder, clock: Clock) -> None:
        from inotify_simple import INotify, flags  # noqa: PLC0415  loaded only by a launch that waits

        self._clock = clock
        try:
            self._inotify = INotify()
            self._watch = self._inotify.add_watch(folder.path, flags.CLOSE_WRITE)
        except OSError:  # the user's share of inotify watches is used up
            self._inotify = None

    def wait(self, seconds: float) -> bool:
        """Wait until a file is closed or the time is over; return whether one was, as if so while nothing tells."""
        if self._inotify is None:
            self._clock.sleep(min(seconds, _POLL_S))
            return True
        return bool(self._inotify.read(timeout=max(0, int(seconds * 1000))))

    def close(self) -> None:
        """Stop watching."""
        if self._inotify is not None:
            self._inotify.rm_watch(self._watch)  # the kernel takes 15 ms longer to close one that still watches
            self._inotify.close()
