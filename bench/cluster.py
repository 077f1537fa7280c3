"""What one look at a cluster takes: 20,000 GPUs in 4,000 jobs on 2,500 nodes, read, judged and put on the board.

The answers of Prometheus are those of dcgm-exporter's metrics, as bytes; reading them counts, asking for them over a
network does not. A tenth of the jobs is idle, half of them under a rule that acts; protections and history are on.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from bench.machine import promise
from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import ClusterBoard, ClusterJob, ClusterNode, Engine, NodeGpu
from fallow.core.errors import FallowError
from fallow.core.findings import Outcome
from fallow.core.http import HttpAnswer
from fallow.core.protections import OneClusterJob, Protection
from fallow.core.unknown import Unknown
from fallow.engine.cluster.loop import ClusterLoop, expect_many_values
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.cluster.usage import UsageFile
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import ClusterLadder, ClusterRule
from fallow.readers.prometheus.eyes import PrometheusEyes, Source
from tests.readers.prometheus.answers import FakePrometheus, gpus

SIZES = (1_000, 5_000, 20_000)
GPUS_OF_NODE, GPUS_OF_JOB = 8, 5
LOOK_LIMIT_S, MEMORY_LIMIT_MB = 2.0, 1000.0
ROUNDS = 3
MOST_TIMES_LINEAR = 2.0  # of the time of a GPU in the smallest cluster: caches are of one size
WARN = Outcome(True, "told")


class RecordedPrometheus:
    """Gives the same bytes for the same query, made once."""

    def __init__(self, nodes: int) -> None:
        self._made = FakePrometheus(gpus(nodes, GPUS_OF_NODE), load=30.0)
        self._answers: dict[str, HttpAnswer | Unknown] = {}

    def __call__(self, method: str, target: str, headers: Mapping[str, str], limit_s: float) -> HttpAnswer | Unknown:
        """Answer one query; the time is left out of what tells two queries apart."""
        query = target.partition("&time=")[0]
        query = "".join(letter for letter in query if not letter.isdigit())
        if query not in self._answers:
            self._answers[query] = self._made(method, target, headers, limit_s)
        return self._answers[query]


class BenchEngine:
    """Lists the jobs that were made, as new values at each look."""

    engine = Engine.SLURM

    def __init__(self, nodes: int) -> None:
        self._nodes = tuple(ClusterNode(f"node-{node:05}", GPUS_OF_NODE) for node in range(nodes))
        self._count = nodes * GPUS_OF_NODE // GPUS_OF_JOB
        self.warned = 0

    def look(self) -> EngineLook:
        """Return all of them."""
        return EngineLook(tuple(self._job(number) for number in range(self._count)), self._nodes, 7)

    def _job(self, number: int) -> ClusterJob:
        first = number * GPUS_OF_JOB
        places = tuple(
            NodeGpu(f"node-{gpu // GPUS_OF_NODE:05}", gpu % GPUS_OF_NODE) for gpu in range(first, first + GPUS_OF_JOB)
        )
        labels = {"partition": "gpu" if number % 2 else "long", "account": f"lab{number % 40}", "qos": "normal"}
        return ClusterJob(
            Engine.SLURM, str(1000 + number), "train", f"user{number % 300}", places, 1.7e9, labels=labels
        )

    def way(self, job: ClusterJob, action: Ask | Kill) -> str:
        """Return that it would be cancelled."""
        return f"cancel {job.id} ({action.because})"

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:
        """Count a warning."""
        self.warned += bool(job.id and action)
        return WARN

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:
        """Do nothing."""
        return Outcome(bool(job.id and action), "")

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        """Do nothing."""
        return Outcome(bool(job.id and action), "")

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:
        """Do nothing."""
        return Outcome(bool(job.id and action), "")


def rules() -> Sequence[ClusterRule]:
    """Return two rules, of which one acts after an hour: in a bench nothing is due."""
    ladder = ClusterLadder(3600.0, 60.0, 120.0, 600.0)
    return (
        ClusterRule("acts", acts=True, idle=ladder, stuck_for_s=3600.0, partitions=("gpu",)),
        ClusterRule("reports", idle=ladder),
    )


def measure(size: int, folder: str) -> tuple[float, float, ClusterBoard]:
    """Return the shortest wall and CPU time of a look at so many GPUs, after the first one."""
    nodes = size // GPUS_OF_NODE
    clock = SystemClock()
    journal = Journal(FallowError("no journal in a bench"), clock.wall_s, lambda _: None)
    protections = [Protection(n, OneClusterJob(f"slurm:{1000 + n}"), 4e9, "", "ada") for n in range(50)]
    loop = ClusterLoop(
        Run(World({}, clock=clock), journal, Report(lambda _: None)),
        BenchEngine(nodes),
        PrometheusEyes(clock, RecordedPrometheus(nodes), Source.DCGM),
        rules(),
        ProtectRules(users=frozenset({"root"})),
        lambda: protections,
        30.0,
        UsageFile(f"{folder}/{size}", print, 90 * 86_400.0, 120.0),
    )
    board = loop.look()
    taken = []
    for _ in range(ROUNDS):
        began_s, cpu_s = time.perf_counter(), time.process_time()
        board = loop.look()
        loop.turn()
        taken.append((time.perf_counter() - began_s, time.process_time() - cpu_s))
    if loop.usage is not None:
        loop.usage.close()
    return min(wall_s for wall_s, _ in taken), min(cpu_s for _, cpu_s in taken), board


def main() -> bool:
    """Three sizes."""
    print("cluster: one look: Prometheus' answers read, all jobs judged, the board made")
    expect_many_values()
    per_gpu_us: list[float] = []
    wall_s = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            wall_s, cpu_s, board = measure(size, folder)
            if board.troubles or len(board.gpus) != size:
                print(f"  it was not looked at: {board.troubles}", file=sys.stderr)
                return False
            per_gpu_us.append(cpu_s / size * 1e6)
            print(
                f"  {size:6} GPUs in {len(board.jobs)} jobs on {len(board.nodes)} nodes: {wall_s:.2f} s,"
                f" {cpu_s:.2f} s of CPU, {per_gpu_us[-1]:.0f} µs a GPU"
            )
    largest_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(f"  {largest_mb:.0f} MB at most")
    linear = per_gpu_us[-1] <= MOST_TIMES_LINEAR * per_gpu_us[0]
    kept = wall_s <= LOOK_LIMIT_S and largest_mb <= MEMORY_LIMIT_MB and linear
    limits = f"{SIZES[-1]} GPUs within {LOOK_LIMIT_S:.0f} s and {MEMORY_LIMIT_MB / 1000:.0f} GB, and linear"
    return promise(limits, kept=kept)
