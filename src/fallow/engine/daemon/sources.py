"""What the daemon shows to clients, and what they may ask it to do; nothing is decided here."""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.actuators.host.as_user import in_the_name_of
from fallow.core.board import Board
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.findings import Event
from fallow.core.gpu import Gpu
from fallow.core.interval import Interval
from fallow.core.money import Prices
from fallow.core.parked import ParkedJob
from fallow.core.process import ProcessTable
from fallow.core.protections import OneClusterJob, OneProcess, Protection, Target, parse_target, reason_of
from fallow.core.value import value
from fallow.core.visibility import ANYBODY, Viewer
from fallow.engine.allocate.subjects import OF_ANOTHER, TO_PROTECT, job_subject, target_of
from fallow.engine.config.model import Machine
from fallow.engine.daemon.calls import Reloaded
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.report import Report
from fallow.engine.machine.local_zone import LocalZone
from fallow.engine.machine.world import World
from fallow.engine.park.wishes import WakeWish, Woken
from fallow.engine.stop.for_person import StopsForPersons
from fallow.readers.accounts import group_number, user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future

LONGEST_PROTECTION_S = 366 * 86400.0
_UNMAPPED = 65534  # what the kernel shows of a user or group that has no number here

T = TypeVar("T")


@value
class Peer:
    """The process at the other end of the socket, as the kernel reports it."""

    pid: int
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()
    """All groups of the process, by the kernel; none for a person of the page."""

    @property
    def viewer(self) -> Viewer:
        """Return the viewer that it is. A user who has no number here could be any user."""
        return ANYBODY if self.uid == _UNMAPPED else Viewer(user_name(self.uid), everything=self.uid == 0)


class NoSuchSubject(WrongUsage):
    """There is nothing of that name to protect, or no such protection."""


class CannotActFor(FallowError):
    """The daemon cannot do this as the user who asks, who can do it without the daemon."""


class Sources:
    """The board, the journal, history and the protections of a running daemon.

    What reads the disk (`events`, `past`, `strip`, `report`) may be slow, and is called in threads.
    """

    def __init__(
        self,
        world: World,
        publisher: Publisher,
        events: Callable[[str | None, int], list[Event]],
        past: Callable[[], HistoryReader],
        machine: Callable[[], Machine],
        reload: Callable[[], "Future[Reloaded]"],
        wake: Callable[[WakeWish], "Future[Woken]"],
        parked: Callable[[], tuple[ParkedJob, ...]],
        stops: StopsForPersons,
    ) -> None:
        """`past` opens history for one question, since another config may open it again."""
        self.publisher = publisher
        self.clock = world.clock
        self.simulated = world.simulated
        """The simulated machine, as `--simulate` names it; None for a real one."""
        self.user = world.user
        """The user that the daemon runs as; protections are placed in their name through the page."""
        self.events = events
        """Return the last events about a GPU or a process, newest first; without a key, about anything."""
        self.past = past
        self.machine = machine
        """Return the section [machine] of the config in force."""
        self.parked = parked
        """Return the jobs that are parked now, or on their way."""
        self.stops = stops
        """Stops jobs as the persons of the page."""
        self.folder = ClaimFolder(folder_path(world.environ))
        """The claim folder, opened for the serving thread alone."""
        self._protections = ProtectionFolder(self.folder, user_name, world.proc)
        self._table: ProcessTable = world.proc
        self._reload = reload
        self._wake = wake

    def board(self) -> Board | None:
        """Return what was seen at the last tick; None before the first."""
        return self.publisher.board

    def pause_s(self) -> float:
        """Return for how long the page should do nothing, because a yield is under way; mostly 0."""
        return self.publisher.paused_until_s - self.clock.monotonic_s()

    def rights_of(self, viewer: Viewer) -> Viewer:
        """Return the viewer, who may read everything if the owner of the machine says so."""
        board = self.board()
        return viewer if board is None else board.rights_of(viewer)

    def protections(self) -> Sequence[Protection]:
        """Return the protections in force."""
        return self._protections.active(self.clock.wall_s())

    def protect(self, subject: str, for_s: float, why: str, peer: Peer | None) -> Protection:
        """Place a protection as the user who asks; without a peer, as the daemon's own user."""
        if not 0 < for_s <= LONGEST_PROTECTION_S:
            raise WrongUsage("a protection lasts for some time, and at most a year")
        target, now_s = self._target(subject), self.clock.wall_s()
        if isinstance(target, OneClusterJob) and peer is not None and peer.uid not in (0, os.geteuid()):
            self._demand_own_job(target, user_name(peer.uid))
        number = _as(peer, lambda: self._protections.place(target, now_s + for_s, why))
        by = self.user if peer is None else user_name(peer.uid)
        return Protection(number, target, now_s + for_s, reason_of(why), by)

    def release_protection(self, number: int, peer: Peer | None) -> None:
        """End a protection before its time: the caller's own; for operators any, which the daemon's user can.

        Through the page that is one of the daemon's own user, also as root.
        """
        if peer is None:
            found = next((each for each in self.protections() if each.id == number), None)
            if found is None:
                raise NoSuchSubject(f"there is no protection {number}")
            if found.by_user != self.user:
                raise NotPermitted(f"protection {number} is {found.by_user}'s; only they can release it")
        by = None if self._is_operator(peer) else peer
        _as(by, lambda: self._protections.release(number))

    def reload(self, peer: Peer | None) -> "Future[Reloaded]":
        """Make the daemon load its config again; return a future of the outcome."""
        if peer is None or not (peer.uid in (0, os.geteuid()) or self._is_operator(peer)):
            who = " and ".join(dict.fromkeys(("root", self.user)))
            raise NotPermitted(f"only {who}, who runs the daemon, may make it reload, by its socket")
        return self._reload()

    def wake(self, subject: str, peer: Peer | None) -> "Future[Woken]":
        """Begin to wake parked jobs of the user who asks, of root and operators any; return a future of which."""
        if peer is None:
            raise NotPermitted("parked jobs are woken by their user or root, by the daemon's socket: fallow wake")
        user = user_name(peer.uid)
        meant = job_subject(subject, OF_ANOTHER, self._gpus, self._table, user)
        if peer.uid == _UNMAPPED:
            raise CannotActFor(f"the daemon cannot act in the name of user {peer.uid}")
        return self._wake(WakeWish(meant, user, may_wake_all=peer.uid == 0 or self._is_operator(peer)))

    def strip(self, uuid: str, since_s: float) -> list[Interval]:
        """Return what one GPU did in the last so many seconds, in order."""
        now_s = self.clock.wall_s()
        return self.past().strip(uuid, round((now_s - since_s) * 1000), round(now_s * 1000))

    def report(self, since_s: float, viewer: Viewer = ANYBODY, until_s: float = 0.0) -> Report:
        """Return what all GPUs did from so many seconds ago until so many seconds ago, as the viewer may see it."""
        now_s, past, board = self.clock.wall_s(), self.past(), self.board()
        prices = Prices() if board is None else board.prices
        rights = self.rights_of(viewer)
        return Report(past, now_s - since_s, now_s - until_s, prices, LocalZone(), rights, made_s=now_s)

    def _is_operator(self, peer: Peer | None) -> bool:
        """Return whether the caller is in the group of the operators, by the kernel; a missing group has nobody."""
        name = self.machine().operators
        if name is None or peer is None or peer.uid == _UNMAPPED or not peer.groups:
            return False
        number = group_number(name)
        return number not in (None, _UNMAPPED) and number in peer.groups

    def _demand_own_job(self, target: OneClusterJob, user: str) -> None:
        """Raise NotPermitted if the job is another user's: a protection of theirs would not count for it."""
        board = self.board()
        jobs = () if board is None or board.cluster is None else board.cluster.jobs
        for each in jobs:
            if each.job.key == target.key and each.job.user not in ("", user):
                raise NotPermitted(f"{target} is {each.job.user}'s; only {each.job.user} and root can protect it")

    def _gpus(self) -> Sequence[Gpu]:
        board = self.board()
        return () if board is None else board.status.gpus

    def _target(self, subject: str) -> Target:
        """Return the target. A pid with its birth must be the same process here: each namespace has its own pids."""
        try:
            if subject.startswith("pid:") and "@" in subject:
                target = parse_target(subject)
            else:
                target = target_of(subject, TO_PROTECT, self._gpus, self._table, self.user)
        except WrongUsage as error:
            raise NoSuchSubject(str(error)) from None
        if isinstance(target, OneProcess):
            stat = self._table.stat(target.pid)
            if stat is None or stat.birth != target.birth:
                raise CannotActFor(f"the daemon does not see pid {target.pid} as the same process")
        return target


def _as(peer: Peer | None, action: Callable[[], T]) -> T:
    """Act as the user who asks, so that the kernel decides what is permitted."""
    if peer is None:
        return action()
    if peer.uid == _UNMAPPED or (os.geteuid() != 0 and peer.uid != os.geteuid()):
        raise CannotActFor(f"the daemon cannot act in the name of user {peer.uid}")
    with in_the_name_of(peer.uid, peer.gid):
        return action()
