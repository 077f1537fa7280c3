"""What the page shows, and where it comes from.

Whatever reads the disk may be slow: the page asks for it from a thread of its own, always the same one.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from fallow.actuators.claims.protections import ProtectionFolder
from fallow.core.board import Board
from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.findings import Event
from fallow.core.interval import Interval
from fallow.core.money import Prices
from fallow.core.ports import Clock
from fallow.core.process import ProcessTable
from fallow.core.protections import Protection, reason_of
from fallow.core.visibility import ANYBODY, Viewer
from fallow.engine.allocate.protection_target import target_among
from fallow.engine.history.records import Records
from fallow.engine.history.redacted_reader import RedactedHistory
from fallow.engine.history.report import Report
from fallow.engine.machine.timezone import LocalZone

_LONGEST_PROTECTION_S = 366 * 86400.0


class Boards(Protocol):
    """Whoever makes a board at each tick."""

    @property
    def board(self) -> Board | None:
        """The last one; None before the first tick."""

    def subscribe(self, callback: Callable[[Board], None]) -> Callable[[], None]:
        """Call this at each tick, in the thread of the policy loop; it must only schedule. The answer ends that."""

    @property
    def hushed_until_s(self) -> float:
        """Until then, by the monotonic clock, a yield needs the processor more than the page does."""


class Sources(Protocol):
    """All that the page asks."""

    @property
    def clock(self) -> Clock:
        """What time it is."""

    @property
    def user(self) -> str:
        """Whose the protections are that are placed through the page."""

    def board(self) -> Board | None:
        """The machine now; None before the first tick."""

    def hush_s(self) -> float:
        """For so long the page should do nothing, because a yield is under way; mostly 0."""

    def subscribe(self, callback: Callable[[Board], None]) -> Callable[[], None]:
        """Call this at each tick, in the thread of the policy loop; it must only schedule. The answer ends that."""

    def protections(self) -> Sequence[Protection]:
        """The protections that last."""

    def protect(self, subject: str, for_s: float, why: str) -> Protection:
        """Leave this alone for so long."""

    def release_protection(self, number: int) -> None:
        """End a protection that was placed by us before its time."""

    def strip(self, uuid: str, since_s: float) -> list[Interval]:
        """What one GPU did in the last so many seconds, in order. From the disk."""

    def report(self, since_s: float, viewer: Viewer = ANYBODY) -> Report:
        """What all GPUs did in the last so many seconds, as somebody may see it. From the disk."""

    def events(self, limit: int) -> list[Event]:
        """The last deeds and findings, newest first. From the disk."""


class NoSuchSubject(WrongUsage):
    """There is nothing of that name to protect, or no such protection."""


class MachineSources:
    """The sources of a daemon that runs."""

    def __init__(
        self,
        boards: Boards,
        clock: Clock,
        hold_folder: ProtectionFolder,
        table: ProcessTable,
        records: Records,
        user: str,
        prices: Callable[[], Prices],
    ) -> None:
        """`prices` are asked for each time, since a config can be loaded anew."""
        self._boards = boards
        self._clock = clock
        self._protection_folder = hold_folder
        self._table = table
        self._records = records
        self._user = user
        self._prices = prices

    @property
    def clock(self) -> Clock:
        """What time it is."""
        return self._clock

    @property
    def user(self) -> str:
        """Whose the protections are that are placed through the page."""
        return self._user

    def board(self) -> Board | None:
        """The machine now; None before the first tick."""
        return self._boards.board

    def hush_s(self) -> float:
        """For so long the page should do nothing, because a yield is under way; mostly 0."""
        return self._boards.hushed_until_s - self.clock.monotonic_s()

    def subscribe(self, callback: Callable[[Board], None]) -> Callable[[], None]:
        """Call this at each tick, in the thread of the policy loop; it must only schedule. The answer ends that."""
        return self._boards.subscribe(callback)

    def protections(self) -> Sequence[Protection]:
        """The protections that last."""
        return self._protection_folder.active(self._clock.wall_s())

    def protect(self, subject: str, for_s: float, why: str) -> Protection:
        """Leave this alone for so long."""
        if not 0 < for_s <= _LONGEST_PROTECTION_S:
            raise WrongUsage("a protection lasts for some time, and at most a year")
        board = self.board()
        try:
            target = target_among(subject, lambda: () if board is None else board.status.gpus, self._table)
        except WrongUsage as error:
            raise NoSuchSubject(str(error)) from None
        until_s = self._clock.wall_s() + for_s
        return Protection(
            self._protection_folder.place(target, until_s, why), target, until_s, reason_of(why), self._user
        )

    def release_protection(self, number: int) -> None:
        """End a protection of ours before its time. Those of others stay theirs, also where we are root."""
        found = next((protection for protection in self.protections() if protection.id == number), None)
        if found is None:
            raise NoSuchSubject(f"there is no protection {number}")
        if found.by_user != self._user:
            raise NotPermitted(f"protection {number} is {found.by_user}'s; only they can release it")
        self._protection_folder.release(number)

    def strip(self, uuid: str, since_s: float) -> list[Interval]:
        """What one GPU did in the last so many seconds, in order. From the disk."""
        past, now_s = self._records.past(), self._clock.wall_s()
        return [] if past is None else past.strip(uuid, round((now_s - since_s) * 1000), round(now_s * 1000))

    def report(self, since_s: float, viewer: Viewer = ANYBODY) -> Report:
        """What all GPUs did in the last so many seconds, as somebody may see it. From the disk."""
        now_s, past, board = self._clock.wall_s(), self._records.past(), self.board()
        rights = viewer if board is None else board.rights_of(viewer)
        shown = None if past is None else RedactedHistory(past, rights)
        return Report(shown, now_s - since_s, now_s, self._prices(), LocalZone())

    def events(self, limit: int) -> list[Event]:
        """The last deeds and findings, newest first. From the disk."""
        return self._records.events(None, limit)
