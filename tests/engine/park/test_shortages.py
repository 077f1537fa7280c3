"""While the system has no threads or descriptors left, the loop goes on, and no job stays between two states."""

import errno
import os
import pathlib
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fallow.core.errors import FallowError
from fallow.core.gpu import Snapshot
from fallow.core.job import Job
from fallow.core.parked import ParkedJob, ParkStage
from fallow.core.ports import Depth
from fallow.core.process import Process
from fallow.core.protections import Everything
from fallow.engine.config.model import Config
from fallow.engine.daemon.loop import Daemon
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.engine.park.parking import Parking
from fallow.engine.park.record import ParkRecord
from fallow.engine.park.wishes import WakeWish
from fallow.readers.proc import Proc

pytestmark = pytest.mark.more


class ShortReader:
    """A reader of GPUs for which no descriptor is left."""

    def look(self, _: Depth) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def describe(self, _: Snapshot) -> None:
        """Never come so far."""

    def close(self) -> None:
        """Do nothing."""


class OneTurn:
    """Signals, of which one ends the daemon after its first turn."""

    def __init__(self) -> None:
        self.fd, self._other = os.pipe()
        self._left = [[], [signal.SIGTERM]]

    def numbers(self) -> list[int]:
        return self._left.pop(0)

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._other)


@contextmanager
def without_threads() -> Iterator[None]:
    """The system gives no thread with so large a stack."""
    before = threading.stack_size(1 << 60)
    try:
        yield
    finally:
        threading.stack_size(before)


@pytest.fixture
def environ(tmp_path: pathlib.Path) -> dict[str, str]:
    return {"FALLOW_STATE_DIR": str(tmp_path / "state"), "FALLOW_CLAIM_DIR": str(tmp_path / "claims")}


@pytest.fixture
def me() -> Process:
    stat = Proc().stat(os.getpid())
    assert stat is not None
    return Process(stat.pid, stat.birth)


def test_without_a_thread_a_job_is_not_parked_in_the_loop_and_not_stopped(
    environ: dict[str, str], me: Process
) -> None:
    world = World(environ)
    job = Job(me, "eve", {me: ""}, (), frozenset())
    with open_run(world, lambda _: None) as run, without_threads():
        parking = Parking(run, KnownOwners(world, run.say))
        parking.begin(job, [])
        assert not parking.is_under_way(job)
        result = parking.result(job)
        assert result is not None
        assert (result.parked, result.in_doubt) == (False, True)
        assert "no thread left" in result.words
        assert parking.jobs == ()


def test_what_could_not_be_woken_for_a_shortage_stays_parked_and_can_be_woken_later(
    environ: dict[str, str], me: Process
) -> None:
    world = World(environ)
    ParkRecord(world).write([ParkedJob(me, (me,), "eve", "job", (), 0.0, holders=(me,))])
    with open_run(world, lambda _: None) as run, without_threads():
        parking = Parking(run, KnownOwners(world, run.say))
        world.gpu_reader = ShortReader()
        parking.wake(parking.jobs, lambda: ())
        (job,) = parking.jobs
        assert job.stage is ParkStage.PARKED
        assert "no thread left" in job.trouble


def test_a_wish_to_wake_that_meets_a_shortage_is_answered_and_ends_no_daemon(
    environ: dict[str, str], me: Process
) -> None:
    world = World(environ, simulate="1xH100")
    ParkRecord(world).write([ParkedJob(me, (me,), "eve", "job", (("GPU-1", 1),), 0.0, holders=(me,))])
    daemon, signals = Daemon(world, lambda _: Config(), Publisher(), lambda _: None), OneTurn()
    try:
        world.gpu_reader = ShortReader()
        waiting = daemon.wakes.ask(WakeWish(Everything(), "root", may_wake_all=True))
        assert daemon.run(signals) == signal.SIGTERM
        with pytest.raises(FallowError, match="the system gives the daemon no more"):
            waiting.result(0)
        assert [job.stage for job in daemon.parking.jobs] == [ParkStage.PARKED]
    finally:
        daemon.end()
        signals.close()
