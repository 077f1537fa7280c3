"""The line of launches that wait for GPUs, in order of arrival.

A place in line is a lock on one byte of each GPU's file that would do: the byte's number is the time of
arrival, so who has a lower one came earlier. A launch may take a GPU only if nobody stands before it there.
Whoever dies leaves the line by that, since the kernel drops the lock.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from fallow.actuators import locks
from fallow.actuators.claim_folder import ClaimFolder
from fallow.actuators.claims import CardFile, gate, label_of, read_label
from fallow.actuators.fill_marks import filler_on
from fallow.core.promise import Claim, Promises
from fallow.core.units import shortened

_NS = 1_000_000_000
_LABEL = "waiting-"


class Place:
    """A place in the line of each GPU that would do."""

    def __init__(
        self,
        folder: ClaimFolder,
        claim: Claim,
        now_s: Callable[[], float],
        sleep: Callable[[float], None],
        *,
        in_passing: bool,
    ) -> None:
        """`in_passing`: only for the moment of one try, as a launch that does not wait stands in line."""
        self.cards: dict[str, CardFile] = {}
        self.ticket = 0
        self._folder = folder
        self._claim = claim
        self._now_s = now_s
        self._sleep = sleep
        self._in_passing = in_passing

    def join(self, uuids: Sequence[str]) -> None:
        """Stand in these lines too. Who joins a line later still came when it came."""
        new = [uuid for uuid in uuids if uuid not in self.cards]
        if not new:
            return
        opened = {uuid: CardFile(self._folder.open(uuid)) for uuid in new}
        with gate(self._folder, self._now_s, self._sleep):
            if not self.ticket:
                self.ticket = int(self._now_s() * _NS)
            for card in opened.values():
                while not locks.take(card.fd, self.ticket, shared=self._in_passing):
                    self.ticket += 1  # two arrived in the same nanosecond
        self.cards.update(opened)
        if not self._in_passing:
            with suppress(OSError):  # without a label the place is as good; only nobody can say whose it is
                self._folder.add(_label_name(self.ticket), label_of(self._claim))

    def promises(self) -> dict[str, Promises]:
        """What is promised to others of each GPU, as it stands before us."""
        return {uuid: promises(self._folder, card, self._now_s(), self.ticket) for uuid, card in self.cards.items()}

    def leave(self) -> None:
        """Step out; those behind move up."""
        with suppress(OSError):
            self._folder.remove(_label_name(self.ticket))
        for card in self.cards.values():
            card.close()
        self.cards.clear()

    def length_ahead(self) -> int:
        """The most launches that stand before this one in any of its lines."""
        return max((card.count_in_line(self.ticket) for card in self.cards.values()), default=0)


def promises(folder: ClaimFolder, card: CardFile, now_s: float, ticket: int | None = None) -> Promises:
    """All that is promised of a GPU, as it stands before a ticket; without one, before everybody."""
    ahead = card.first_in_line() if ticket is None else card.first_in_line(ticket)
    in_passing = ahead is not None and ahead.shared
    return Promises(
        claim=card.claim(),
        ahead=ahead is not None,
        waiting=None if ahead is None or in_passing else _who(folder, ahead.start),
        in_passing=in_passing,
        reserved=card.reserved(now_s),
        filler=filler_on(card),
    )


def sweep(folder: ClaimFolder, lives: Callable[[int], bool]) -> None:
    """Clear away what launches that were killed while they waited wrote of themselves."""
    for name in folder.names():
        if name.startswith(_LABEL):
            with suppress(OSError):
                pid = read_label(False, folder.read(name)[0]).pid
                if pid is None or not lives(pid):
                    folder.remove(name)


def _who(folder: ClaimFolder, ticket: int) -> str | None:
    try:
        label = read_label(False, folder.read(_label_name(ticket))[0])
    except OSError:
        return None
    return f"pid {label.pid} ({label.user}: {shortened(label.command or '')})" if label.pid else None


def _label_name(ticket: int) -> str:
    return f"{_LABEL}{ticket}"


class Bell:
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
