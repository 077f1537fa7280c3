"""The queue of launches that wait for GPUs, in order of arrival.

A place in the queue is a lock on one byte of the file of each GPU that fits. The byte's number is the time of
arrival, so a lower one came earlier. A launch may take a GPU only if no other is before it there. A launch that ends
leaves the queue, since the kernel drops its lock.

Any user can lock any byte. So a place counts only with a label, written before the lock is taken: a file that
belongs to the user who waits and names a process of theirs that is not younger than the place. Launches that only
try once have no label, and count for moments. Any other lock there is ignored, and if a user has locked the whole
queue, new launches go on without it. A launch that is stopped is passed over. So is a pick that waits, since it
claims nothing: its place only says that it wants the GPU. The order is a courtesy: only the claim excludes.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from fallow.actuators.claims.claims import CLAIM_BYTE, ClaimFile, gate, label_of, read_label
from fallow.actuators.claims.fill_marks import filler_on
from fallow.actuators.claims.folder import GATE, ClaimFolder, FileRefused
from fallow.actuators.files import ofd_locks
from fallow.core.errors import FallowError
from fallow.core.reservations import JUST_PICKED, NOTHING_RESERVED, Claim, Reservations, Waiter
from fallow.core.units import is_number

_NS = 1_000_000_000
_LABEL = "waiting-"
_TRIES = 100  # launches that arrive in the same nanosecond
_MOST_KNOWN = 10_000
_MOST_SWEPT = 256
_OF_GPUS = ("GPU-", "MIG-")
_WRITTEN_BY_OTHERS = 0o022  # a claim file under a second name: its owner need not have written what is in it
_PASSES_WITHIN_NS = 15 * _NS  # a launch that only tries once is gone by then

Stands = Callable[[Waiter], bool]
"""Returns whether a label is true: its process lives, belongs to its owner, and is not younger than the place."""


class Queue:
    """The launches that wait; each label is read once."""

    def __init__(self, folder: ClaimFolder, stands: Stands, awake: Stands = lambda _: True) -> None:
        """`awake` returns whether a launch could take a GPU now; a launch that could not is passed over."""
        self._folder = folder
        self._stands = stands
        self._awake = awake
        self._known: dict[int, Waiter | None] = {}

    def reservations(
        self, file: ClaimFile, now_s: float, ticket: int = CLAIM_BYTE, *, passing: bool = True
    ) -> Reservations:
        """Return what is reserved of a GPU before a ticket; `passing`: also for launches that only try once."""
        if file.is_untouched():
            return JUST_PICKED if file.reserved(now_s) else NOTHING_RESERVED
        waiting, in_passing, in_line = None, False, False
        for place in file.places(now_s, ticket):
            in_line = True
            if place.shared:
                in_passing = in_passing or (passing and place.start > now_s * _NS - _PASSES_WITHIN_NS)
                continue
            waiting = self._waiter(place.start)
            if waiting is not None and not waiting.yields and self._awake(waiting):
                break
            waiting = None
        return Reservations(
            claim=file.claim(),
            ahead=in_passing or waiting is not None,
            waiting=waiting,
            in_passing=in_passing and waiting is None,
            in_line=in_line,
            reserved=file.reserved(now_s),
            filler=filler_on(file),
        )

    def waiting(self, file: ClaimFile, now_s: float) -> Iterator[Waiter]:
        """Yield the launches that wait for a GPU, live, and could take it now, in no particular order."""
        if file.is_untouched():
            return
        for place in file.places(now_s):
            waiter = None if place.shared else self._waiter(place.start)
            if waiter is not None and self._stands(waiter) and self._awake(waiter):
                yield waiter

    def count_ahead(self, file: ClaimFile, now_s: float, ticket: int) -> int:
        """Return how many launches wait that came before a ticket, without picks, which keep nobody from the GPU."""
        places = [place.start for place in file.places(now_s, ticket) if not place.shared]
        return sum(1 for place in places if (waiter := self._waiter(place)) is not None and not waiter.yields)

    def _waiter(self, ticket: int) -> Waiter | None:
        if ticket not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[ticket] = self._read(ticket)
        return self._known[ticket]

    def _read(self, ticket: int) -> Waiter | None:
        try:
            raw, facts = self._folder.read(_label_name(ticket))
        except OSError:
            return None
        label = read_label(False, raw)
        if label.pid is None or label.birth is None or facts.st_mode & _WRITTEN_BY_OTHERS:
            return None
        waiter = Waiter(ticket, label.pid, label.birth, facts.st_uid, label.command or "", label.yields)
        return waiter if self._stands(waiter) else None


class QueueEntry:
    """A place in the queue of each GPU that fits."""

    def __init__(
        self,
        folder: ClaimFolder,
        claim: Claim,
        now_s: Callable[[], float],
        sleep: Callable[[float], None],
        stands: Stands,
        awake: Stands = lambda _: True,
        *,
        in_passing: bool,
    ) -> None:
        """`in_passing`: only for the moment of one try, for a launch that does not wait."""
        self.files: dict[str, ClaimFile] = {}
        self.shut: dict[str, FileRefused] = {}
        """Why a GPU has no queue, by UUID: its file is unfit."""
        self.ticket = 0
        self.minds_passers = True
        """Whether launches that only try once go first."""
        self._folder = folder
        self._claim = claim
        self._now_s = now_s
        self._sleep = sleep
        self._in_passing = in_passing
        self._label: str | None = None
        self._line = Queue(folder, stands, awake)

    def join(self, uuids: Sequence[str]) -> None:
        """Join these queues too. The ticket stays the same."""
        new = [uuid for uuid in uuids if uuid not in self.files]
        opened: dict[str, ClaimFile] = {}
        for uuid in new:
            self.shut.pop(uuid, None)
            try:
                opened[uuid] = ClaimFile(self._folder.open(uuid))
            except FileRefused as error:
                self.shut[uuid] = error
            except BaseException:  # such as too many open files: reporting it needs one
                for file in opened.values():
                    file.close()
                raise
        if not opened:
            return
        with gate(self._folder, self._now_s, self._sleep):
            if not self.ticket:
                self.ticket = self._arrive()
            for file in opened.values():
                ofd_locks.take(file.fd, self.ticket, shared=self._in_passing)
        self.files.update(opened)

    def _arrive(self) -> int:
        """Return a new ticket; a launch that waits writes a label for it."""
        now = int(self._now_s() * _NS)
        if self._in_passing:
            return now
        for ticket in range(now, now + _TRIES):
            self._label = _label_name(ticket)  # first: who is interrupted in the next line removes it too
            try:
                if self._folder.add(self._label, label_of(self._claim)):
                    return ticket
            except OSError as error:
                where = f"cannot stand in line in {self._folder.path}"
                raise FallowError(f"{where}: {error.strerror}; without --wait no place is needed") from None
        raise FallowError(
            f"cannot stand in line in {self._folder.path}: somebody has taken all places of this moment"
        )

    def reservations(self) -> dict[str, Reservations]:
        """Return what is reserved of each GPU before this launch."""
        now_s, passing = self._now_s(), self.minds_passers
        return {
            uuid: self._line.reservations(file, now_s, self.ticket, passing=passing)
            for uuid, file in self.files.items()
        }

    def leave(self) -> None:
        """Leave all queues."""
        if self._label is not None:
            with suppress(OSError):
                self._folder.remove(self._label)
        for file in self.files.values():
            file.close()
        self.files.clear()

    def length_ahead(self) -> int:
        """Return the largest number of launches before this one in any of its queues, without picks."""
        now_s = self._now_s()
        return max((self._line.count_ahead(file, now_s, self.ticket) for file in self.files.values()), default=0)


def sweep(folder: ClaimFolder, lives: Callable[[Claim], bool]) -> None:
    """Remove the labels of launches that ended while they waited, and could not do it themselves.

    They are our own, or for root those of all.
    """
    names = folder.names()
    for name in [each for each in names if each.startswith(_LABEL)][:_MOST_SWEPT]:
        with suppress(OSError, FallowError):
            raw, facts = folder.read(name)
            is_ours = os.geteuid() in (0, facts.st_uid)
            if is_ours and not lives(read_label(False, raw)) and not _is_in_line(folder, name, names):
                folder.remove(name)


def _is_in_line(folder: ClaimFolder, label: str, names: Sequence[str]) -> bool:
    """Return whether the place of a label is held: its process lives, though perhaps in a container of its own."""
    number = label.removeprefix(_LABEL)
    if not is_number(number) or int(number) >= CLAIM_BYTE:
        return False
    for name in names:
        if name.startswith(_OF_GPUS):
            fd = folder.peek(name)
            try:
                if fd is not None and ofd_locks.other(fd, int(number), int(number)) is not None:
                    return True
            finally:
                if fd is not None:
                    os.close(fd)
    return False


def _label_name(ticket: int) -> str:
    return f"{_LABEL}{ticket}"


class FolderWatch:
    """Watches the claim folder for a file that is closed: a claim ended, or a launch left the queue."""

    def __init__(self, folder: ClaimFolder, sleep: Callable[[float], None]) -> None:
        from inotify_simple import INotify, flags  # noqa: PLC0415  loaded only by a launch that waits

        self._sleep = sleep
        try:
            self._inotify = INotify()
            self._inotify.add_watch(folder.path, flags.CLOSE_WRITE)
        except OSError:  # the user's share of inotify watches is used up
            self._inotify = None

    def wait(self, seconds: float, poll_s: float) -> bool:
        """Wait until a file is closed or the time is over; return whether one but the gate was. Else poll."""
        if self._inotify is None:
            self._sleep(min(seconds, poll_s))
            return True
        closed = self._inotify.read(timeout=max(0, int(seconds * 1000)))
        return any(event.name != GATE for event in closed)

    def close(self) -> None:
        """Stop watching."""
        if self._inotify is not None:
            self._inotify.close()
