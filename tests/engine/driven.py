"""A world whose clock a test drives, with the real driver binding behind its eyes, and a job that only exists."""

import os
import time
from collections.abc import Sequence

from fallow.core.actions import Ask, Kill
from fallow.core.findings import Outcome
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Depth, Links
from fallow.core.process import Ended, Process, ProcessRow
from fallow.core.value import replace
from fallow.engine.jobs.foreground import ForegroundJobActions
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc
from tests.harness import ManualClock


class _BesideDriven(SystemClock):
    """Real time, ahead by what was driven: calls are bounded by it, and what is read seldom is read in time."""

    def __init__(self, driven: ManualClock) -> None:
        self._driven = driven

    def monotonic_s(self) -> float:
        return time.monotonic() + self._driven.now_s


class DrivenReader:
    """The real eyes, whose calls are bounded by real time, with the driven time on what they see."""

    def __init__(self, clock: ManualClock, driver_limit_s: float, proc: Proc | None = None) -> None:
        self._clock = clock
        self._real = NvmlReader("driven", _BesideDriven(clock), proc or Proc(), driver_limit_s)
        self._real.open()

    def look(self, depth: Depth) -> Snapshot:
        return replace(self._real.look(depth), at_s=self._clock.monotonic_s(), wall_s=self._clock.wall_s())

    def links(self, gpus: Sequence[Gpu]) -> Links:
        return self._real.links(gpus)

    def describe(self, snapshot: Snapshot) -> Snapshot:
        return self._real.describe(snapshot)

    def close(self) -> None:
        self._real.close()


class DrivenTree:
    """The tree of a job that is this very process, or whoever the test names."""

    def __init__(self, pid: int) -> None:
        self.root = Process(pid, 1)
        self.ended: Ended | None = None

    def has(self, pid: int) -> bool:
        return pid == self.root.pid

    def living(self) -> list[ProcessRow]:
        return [] if self.ended is not None else [row for row in [Proc().stat(self.root.pid)] if row is not None]


class DrivenJob:
    """A job for so many seconds of driven time, unless somebody ends it."""

    def __init__(self, clock: ManualClock, seconds: float, pid: int | None = None) -> None:
        self.tree = DrivenTree(pid or os.getpid())
        self._clock = clock
        self._until_s = clock.now_s + seconds

    def wait_for_job(self, timeout_s: float) -> Ended | None:
        self._clock.sleep(timeout_s)
        if self._clock.now_s >= self._until_s:
            self.tree.ended = Ended(code=0)
        return self.tree.ended

    def wait_for_tree(self, timeout_s: float) -> bool:
        return self.wait_for_job(timeout_s) is not None


class RecordingActions(ForegroundJobActions):
    """Remembers when it was asked to ask; that ends the job."""

    def __init__(self, world: World, clock: ManualClock, job: DrivenJob) -> None:
        super().__init__(world, job)  # type: ignore[arg-type]
        self.asked: list[float] = []
        self._clock = clock
        self._job = job

    def ask(self, action: Ask) -> Outcome:
        self.asked.append(self._clock.now_s)
        self._job.tree.ended = Ended(by_signal=15)
        return Outcome(True, f"SIG{action.signal}")

    def kill(self, _: Kill) -> Outcome:
        raise AssertionError("the job ends when it is asked")


def driven_world(environ: dict[str, str], driver_limit_s: float = 2.0) -> tuple[World, ManualClock]:
    """A world on the stand-in driver that the environment names, with a driven clock."""
    clock = ManualClock()
    world = World(environ, clock=clock)
    world.gpu_reader = DrivenReader(clock, driver_limit_s)
    return world, clock
