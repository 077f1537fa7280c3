"""The line of launches that wait for GPUs, in order of arrival.

A place in line is a lock on one byte of each GPU's file that would do: the byte's number is the time of
arrival, so who has a lower one came earlier. A launch may take a GPU only if nobody stands before it there.
Whoever dies leaves the line by that, since the kernel drops the lock.
"""

from collections.abc import Callable, Sequence

from fallow.actuators import locks
from fallow.actuators.claim_folder import ClaimFolder
from fallow.actuators.claims import CardFile, gate

_NS = 1_000_000_000


class Place:
    """A place in the line of each GPU that would do."""

    def __init__(
        self,
        folder: ClaimFolder,
        uuids: Sequence[str],
        now_s: Callable[[], float],
        sleep: Callable[[float], None],
        *,
        in_passing: bool,
    ) -> None:
        """`in_passing`: only for the moment of one try, as a launch that does not wait stands in line."""
        self.cards: dict[str, CardFile] = {uuid: CardFile(folder.open(uuid)) for uuid in uuids}
        with gate(folder, now_s, sleep):
            self.ticket = int(now_s() * _NS)
            for card in self.cards.values():
                while not locks.take(card.fd, self.ticket, shared=in_passing):
                    self.ticket += 1  # two arrived in the same nanosecond

    def leave(self) -> None:
        """Step out; those behind move up."""
        for card in self.cards.values():
            card.close()
        self.cards.clear()

    def length_ahead(self) -> int:
        """The most launches that stand before this one in any of its lines."""
        return max((card.count_ahead(self.ticket) for card in self.cards.values()), default=0)


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
