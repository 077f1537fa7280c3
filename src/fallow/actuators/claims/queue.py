"""The line of launches that wait for GPUs, in order of arrival.

A place in line is a lock on one byte of each GPU's file that would do: the byte's number is the time of
arrival, so who has a lower one came earlier. A launch may take a GPU only if nobody stands before it there.
Whoever dies leaves the line by that, since the kernel drops the lock.

Any user can lock any byte. So a place counts only with a label beside it, written before the lock is taken: a file,
whose owner is who waits, and which names a process of theirs that is no younger than the place. Those who only try
once have no label, and count for moments. What is locked there otherwise stands in nobody's way; and where somebody
has locked the whole line, those who come go on without one. Who is stopped is passed over. The line is a
courtesy: only the claim excludes.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from fallow.actuators.claims.claims import (
    CLAIM_BYTE,
    CardFile,
    gate,
    label_of,
    read_label,
)
from fallow.actuators.claims.fill_marks import filler_on
from fallow.actuators.claims.folder import ClaimFolder, FileRefused
from fallow.actuators.files import ofd_locks
from fallow.core.errors import FallowError
from fallow.core.reservations import Claim, Reservations, Waiter

_NS = 1_000_000_000
_LABEL = "waiting-"
_TRIES = 100  # launches that came in the same nanosecond
_MOST_KNOWN = 10_000
_PASSES_WITHIN_NS = 15 * _NS  # whoever only tries once is gone by then

Stands = Callable[[Waiter], bool]
"""Whether a label is true: its process lives, is its owner's, and no younger than the place."""


class Queue:
    """What is known of those who wait, asked once for each."""

    def __init__(self, folder: ClaimFolder, stands: Stands, awake: Stands = lambda _: True) -> None:
        """`awake`: whether one who stands there could take a GPU now; asked each time, and passed over if not."""
        self._folder = folder
        self._stands = stands
        self._awake = awake
        self._known: dict[int, Waiter | None] = {}

    def reservations(
        self, card: CardFile, now_s: float, ticket: int = CLAIM_BYTE, *, passing: bool = True
    ) -> Reservations:
        """All that is promised of a GPU, as it stands before a ticket; `passing`: to those who only try once too."""
        if card.is_untouched():
            return Reservations(reserved=card.reserved(now_s))
        waiting, in_passing, in_line = None, False, False
        for place in card.places(now_s, ticket):
            in_line = True
            if place.shared:
                in_passing = in_passing or (passing and place.start > now_s * _NS - _PASSES_WITHIN_NS)
                continue
            waiting = self._waiter(place.start)
            if waiting is not None and self._awake(waiting):
                break
            waiting = None
        return Reservations(
            claim=card.claim(),
            ahead=in_passing or waiting is not None,
            waiting=waiting,
            in_passing=in_passing and waiting is None,
            in_line=in_line,
            reserved=card.reserved(now_s),
            filler=filler_on(card),
        )

    def _waiter(self, ticket: int) -> Waiter | None:
        if ticket not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[ticket] = self._read(ticket)
        return self._known[ticket]

    def _read(self, ticket: int) -> Waiter | None:
        try:
            raw, uid = self._folder.read(_label_name(ticket))
        except OSError:
            return None
        label = read_label(False, raw)
        if label.pid is None or label.birth is None:
            return None
        waiter = Waiter(ticket, label.pid, label.birth, uid, label.command or "")
        return waiter if self._stands(waiter) else None


class QueueEntry:
    """A place in the line of each GPU that would do."""

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
        """`in_passing`: only for the moment of one try, as a launch that does not wait stands in line."""
        self.cards: dict[str, CardFile] = {}
        self.shut: dict[str, FileRefused] = {}
        """Why there is no standing in line for a GPU, by UUID: its file is not fit."""
        self.ticket = 0
        self.minds_passers = True
        """Whether those who only try once are let go first."""
        self._folder = folder
        self._claim = claim
        self._now_s = now_s
        self._sleep = sleep
        self._in_passing = in_passing
        self._line = Queue(folder, stands, awake)

    def join(self, uuids: Sequence[str]) -> None:
        """Stand in these lines too. Who joins a line later still came when it came."""
        new = [uuid for uuid in uuids if uuid not in self.cards]
        opened: dict[str, CardFile] = {}
        for uuid in new:
            self.shut.pop(uuid, None)
            try:
                opened[uuid] = CardFile(self._folder.open(uuid))
            except FileRefused as error:
                self.shut[uuid] = error
            except BaseException:  # such as too many open files: whoever says so needs one
                for card in opened.values():
                    card.close()
                raise
        if not opened:
            return
        with gate(self._folder, self._now_s, self._sleep):
            if not self.ticket:
                self.ticket = self._arrive()
            for card in opened.values():
                ofd_locks.take(card.fd, self.ticket, shared=self._in_passing)
        self.cards.update(opened)

    def _arrive(self) -> int:
        """A ticket of our own; who waits longer than a moment says in a label who they are."""
        now = int(self._now_s() * _NS)
        if self._in_passing:
            return now
        for ticket in range(now, now + _TRIES):
            try:
                if self._folder.add(_label_name(ticket), label_of(self._claim)):
                    return ticket
            except OSError as error:
                where = f"cannot stand in line in {self._folder.path}"
                raise FallowError(f"{where}: {error.strerror}; without --wait no place is needed") from None
        raise FallowError(
            f"cannot stand in line in {self._folder.path}: somebody has taken all places of this moment"
        )

    def reservations(self) -> dict[str, Reservations]:
        """What is promised to others of each GPU, as it stands before us."""
        now_s, passing = self._now_s(), self.minds_passers
        return {
            uuid: self._line.reservations(card, now_s, self.ticket, passing=passing)
            for uuid, card in self.cards.items()
        }

    def leave(self) -> None:
        """Step out; those behind move up."""
        with suppress(OSError):
            self._folder.remove(_label_name(self.ticket))
        for card in self.cards.values():
            card.close()
        self.cards.clear()

    def length_ahead(self) -> int:
        """The most launches that stand before this one in any of its lines."""
        now_s = self._now_s()
        return max((card.count_in_line(now_s, self.ticket) for card in self.cards.values()), default=0)


def sweep(folder: ClaimFolder, lives: Callable[[int], bool]) -> None:
    """Clear away what launches that were killed while they waited wrote of themselves."""
    for name in folder.names():
        if name.startswith(_LABEL):
            with suppress(OSError):
                pid = read_label(False, folder.read(name)[0]).pid
                if pid is None or not lives(pid):
                    folder.remove(name)


def _label_name(ticket: int) -> str:
    return f"{_LABEL}{ticket}"


class FolderWatch:
    """Rings when a file of the claim folder is let go of: a claim ended, or somebody left the line."""

    def __init__(self, folder: ClaimFolder, sleep: Callable[[float], None]) -> None:
        from inotify_simple import INotify, flags  # noqa: PLC0415  only those who wait pay for it

        self._sleep = sleep
        try:
            self._inotify = INotify()
            self._inotify.add_watch(folder.path, flags.CLOSE_WRITE)
        except OSError:  # the user's share of inotify watches is used up
            self._inotify = None

    def wait(self, seconds: float, poll_s: float) -> bool:
        """Until it rings or the time is over; whether it rang. Without inotify, every `poll_s` counts as a ring."""
        if self._inotify is None:
            self._sleep(min(seconds, poll_s))
            return True
        return bool(self._inotify.read(timeout=max(0, int(seconds * 1000))))

    def close(self) -> None:
        """Stop listening."""
        if self._inotify is not None:
            self._inotify.close()
