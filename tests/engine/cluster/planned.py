"""A cluster whose answers a test writes: an engine and eyes at the ports, and the loop over a real journal."""

import pathlib
from collections import Counter
from collections.abc import Callable

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import (
    ClusterBoard,
    ClusterJob,
    ClusterJobView,
    ClusterNode,
    Engine,
    GpuReading,
    NodeGpu,
    Readings,
)
from fallow.core.findings import Event, Outcome
from fallow.core.job import GpuKey
from fallow.core.notices import Notice
from fallow.core.protections import Protection
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.dry_run import DryRunEngine
from fallow.engine.cluster.loop import ClusterLoop
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import ClusterLadder, ClusterRule
from tests.harness import ManualClock

EVERY_S = 30.0
GAP_S = 120.0
GIB = 2**30


def job(
    number: int, gpus: int = 2, node: str = "n1", first: int = 0, user: str = "ada", **more: object
) -> ClusterJob:
    """Return a Slurm job that holds GPUs of one node."""
    places = tuple(NodeGpu(node, first + place) for place in range(gpus))
    made = ClusterJob(
        Engine.SLURM,
        str(number),
        f"train{number}",
        user,
        places,
        1.7e9,
        labels={"partition": "gpu", "account": "lab"},
    )
    return replace(made, **more)


def reading(
    index: int, load: float | Unknown, node: str = "n1", used_bytes: int | Unknown = 40 * GIB, **more: object
) -> GpuReading:
    """Return what one GPU of a node did."""
    made = GpuReading(GpuKey(node, f"GPU-{node}-{index}"), index, load, used_bytes)
    return replace(made, **more)


def rule(**more: object) -> ClusterRule:
    """Return a rule that acts: idle for 10 minutes, warned 5 before, a grace of a minute."""
    made = ClusterRule("idle", acts=True, idle=ClusterLadder(600.0, 60.0, GAP_S, 300.0), longest_gap_s=GAP_S)
    return replace(made, **more)


class PlannedEngine:
    """Lists the jobs that a test wrote down, and remembers what was done to them."""

    engine = Engine.SLURM

    def __init__(self) -> None:
        self.jobs: list[ClusterJob] | Unknown = []
        self.nodes: tuple[ClusterNode, ...] | Unknown | None = None
        """None for those that the metrics have, with as many GPUs."""
        self.in_metrics: Callable[[], tuple[ClusterNode, ...]] = tuple
        self.pending: int | Unknown = 0
        self.again: list[list[ClusterJob] | Unknown] = []
        """What is answered when it is asked again, before it answers as ever."""
        self.looks = 0
        self.done: list[tuple[str, str]] = []
        self.outcome = Outcome(True, "done")
        self.ends = True
        self.after: dict[str, Callable[[], object]] = {}
        """What happens once something was done: after `ask`, or after `kill`."""

    def look(self) -> EngineLook:
        self.looks += 1
        jobs = self.again.pop(0) if self.again and self.looks % 2 == 0 else self.jobs
        nodes = self.in_metrics() if self.nodes is None else self.nodes
        return EngineLook(jobs if isinstance(jobs, Unknown) else tuple(jobs), nodes, self.pending)

    def way(self, job: ClusterJob, action: Ask | Kill) -> str:
        return f"way of {type(action).__name__} {job.id}"

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:
        return self._do("warn", job, action)

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:
        return self._do("cancel", job, action)

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        return self._do("ask", job, action)

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:
        outcome = self._do("kill", job, action)
        if outcome.ok and self.ends and isinstance(self.jobs, list):
            self.jobs = [each for each in self.jobs if each.key != job.key]
        return outcome

    def _do(self, word: str, job: ClusterJob, action: Warn | CancelWarning | Ask | Kill) -> Outcome:
        assert action.because
        self.done.append((word, job.id))
        self.after.get(word, lambda: None)()
        return self.outcome


class PlannedEyes:
    """Reads what a test wrote down."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.gpus: list[GpuReading] = []
        self.trouble: Unknown | None = None
        self.covers_s = 45.0

    def nodes(self) -> tuple[ClusterNode, ...]:
        """Return the nodes that the readings are of."""
        return tuple(ClusterNode(*each) for each in Counter(gpu.key.host for gpu in self.gpus).items())

    def read(self) -> Readings:
        gpus = () if self.trouble is not None else tuple(self.gpus)
        return Readings(self._clock.monotonic_s(), self.covers_s, gpus, self.trouble)


class PlannedCluster:
    """A loop over a planned cluster with one idle job, run without its thread, and what it reports."""

    def __init__(
        self,
        folder: pathlib.Path,
        *rules: ClusterRule,
        protect: ProtectRules | None = None,
        dry_run: bool = False,
        background: frozenset[str] = frozenset(),
    ) -> None:
        self.clock = ManualClock()
        self.engine = PlannedEngine()
        self.engine.jobs = [job(7)]
        self.eyes = PlannedEyes(self.clock)
        self.eyes.gpus = [reading(0, 0.0), reading(1, 0.0)]
        self.engine.in_metrics = self.eyes.nodes
        self.said: list[str] = []
        self.notices: list[Notice] = []
        self.protections: list[Protection] = []
        self.journal = Journal(str(folder / "journal"), self.clock.wall_s, self.said.append)
        report = Report(self.said.append, notify=self._notify)
        run = Run(World({}, clock=self.clock), self.journal, report, dry_run)
        self.loop = ClusterLoop(
            run,
            DryRunEngine(self.engine) if dry_run else self.engine,
            self.eyes,
            rules or (rule(),),
            ProtectRules() if protect is None else protect,
            lambda: self.protections,
            EVERY_S,
            background,
        )

    def look(self, times: int = 1) -> ClusterBoard:
        """Look so often, every 30 seconds."""
        for _ in range(times):
            self.clock.now_s += EVERY_S
            board = self.loop.look()
            self.loop.turn()
        return board

    def minutes(self, number: float) -> ClusterBoard:
        """Look for so long."""
        return self.look(round(number * 60 / EVERY_S))

    def view(self, number: int) -> ClusterJobView:
        """Return one job as the board has it."""
        assert self.loop.board is not None
        return next(each for each in self.loop.board.jobs if each.job.id == str(number))

    @property
    def done(self) -> list[str]:
        """Return what was done, in order, as `warn 7`."""
        return [f"{word} {number}" for word, number in self.engine.done]

    def events(self, key: str) -> list[Event]:
        """Return the journal's events of a job, oldest first."""
        return self.journal.last(key, 1000)[::-1]

    def _notify(self, notice: Notice) -> str:
        self.notices.append(notice)
        return f"a notice goes to {notice.person}" if notice.person else ""
