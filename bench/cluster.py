"""What one look at a cluster takes: 20,000 GPUs in 4,000 jobs on 2,500 nodes, read, judged and put on the board.

The answers of Prometheus are those of dcgm-exporter's metrics, and Slurm's those of squeue and scontrol, as text;
reading them counts, waiting for the network does not. Half of the jobs are under a rule that acts; protections and
the sums for metrics are on.
"""

import resource
import sys
import time
from collections.abc import Mapping, Sequence

from bench.machine import promise
from fallow.core.cluster import ClusterBoard
from fallow.core.errors import FallowError
from fallow.core.http import HttpAnswer
from fallow.core.protections import OneClusterJob, Protection
from fallow.core.unknown import Unknown
from fallow.engine.cluster.loop import ClusterLoop, expect_many_values
from fallow.engine.cluster.slurm import SlurmEngine
from fallow.engine.cluster.slurm_commands import SlurmCommands
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import ClusterLadder, ClusterRule
from fallow.readers.prometheus.eyes import PrometheusEyes, Source
from tests.readers.prometheus.answers import FakePrometheus, gpus
from tests.readers.slurm.printed import job_line

SIZES = (1_000, 5_000, 20_000)
GPUS_OF_NODE, GPUS_OF_JOB = 8, 5
LOOK_LIMIT_S, MEMORY_LIMIT_MB = 2.0, 1000.0
ROUNDS = 3
MOST_TIMES_LINEAR = 2.0  # of the time of a GPU in the smallest cluster: caches are of one size
STARTED = "1794822104"


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


class RecordedSlurm(SlurmCommands):
    """Prints what squeue and scontrol print of so many jobs, made once."""

    def __init__(self, nodes: int) -> None:
        super().__init__(SystemClock(), {})
        numbers = range(nodes * GPUS_OF_NODE // GPUS_OF_JOB)
        self._queue = "".join(
            f"{1000 + number}|{1000 + number}|user{number % 300}|{2000 + number % 300}|{STARTED}|RUNNING"
            f"|{len(places(number))}\n"
            for number in numbers
        )
        self._jobs = "".join(_job_line(number) for number in numbers)
        self._nodes = "".join(
            f"NodeName=node-{node:05} Arch=x86_64 Gres=gpu:{GPUS_OF_NODE} State=MIXED Partitions=gpu,long \n"
            for node in range(nodes)
        )

    def text(self, name: str, *words: str) -> str | Unknown:
        """Return what the command prints."""
        if name == "squeue":
            return self._queue
        return self._nodes if words[-1] == "node" else self._jobs


class HurriedClock(SystemClock):
    """A clock by which each look is hours after the one before, so that the engine reads everything again."""

    def __init__(self) -> None:
        self._later_s = 0.0

    def monotonic_s(self) -> float:  # type: ignore[override]
        """Return the time, an hour later than before."""
        self._later_s += 3600.0
        return SystemClock.monotonic_s() + self._later_s


def places(number: int) -> dict[int, list[int]]:
    """Return the GPUs of a job, by node."""
    found: dict[int, list[int]] = {}
    for gpu in range(number * GPUS_OF_JOB, (number + 1) * GPUS_OF_JOB):
        found.setdefault(gpu // GPUS_OF_NODE, []).append(gpu % GPUS_OF_NODE)
    return found


def _job_line(number: int) -> str:
    held = "".join(
        f"   Nodes=node-{node:05} CPU_IDs=0 Mem=0 GRES=gpu:{len(gpus)}(IDX:{','.join(map(str, gpus))})"
        for node, gpus in places(number).items()
    )
    user = f"user{number % 300}({2000 + number % 300})"
    partition = "gpu" if number % 2 else "long"
    return job_line(1000 + number, user=user, start=STARTED, partition=partition, nodes=held)


def rules() -> Sequence[ClusterRule]:
    """Return two rules, of which one acts after an hour: in a bench nothing is due."""
    ladder = ClusterLadder(3600.0, 60.0, 120.0, 600.0)
    return (
        ClusterRule("acts", acts=True, idle=ladder, partitions=("gpu",)),
        ClusterRule("reports", idle=ladder),
    )


def measure(size: int) -> tuple[float, float, ClusterBoard]:
    """Return the shortest wall and CPU time of a look at so many GPUs, after the first one."""
    nodes = size // GPUS_OF_NODE
    clock = SystemClock()
    journal = Journal(FallowError("no journal in a bench"), clock.wall_s, lambda _: None)
    protections = [Protection(n, OneClusterJob(f"slurm:{1000 + n}"), 4e9, "", "ada") for n in range(50)]
    loop = ClusterLoop(
        Run(World({}, clock=clock), journal, Report(lambda _: None)),
        SlurmEngine(HurriedClock(), RecordedSlurm(nodes)),
        PrometheusEyes(clock, RecordedPrometheus(nodes), Source.DCGM),
        rules(),
        ProtectRules(users=frozenset({"root"})),
        lambda: protections,
        30.0,
    )
    board = loop.look()
    taken = []
    for _ in range(ROUNDS):
        began_s, cpu_s = time.perf_counter(), time.process_time()
        board = loop.look()
        loop.turn()
        taken.append((time.perf_counter() - began_s, time.process_time() - cpu_s))
    return min(wall_s for wall_s, _ in taken), min(cpu_s for _, cpu_s in taken), board


def main() -> bool:
    """Three sizes."""
    print("cluster: one look: the answers of Slurm and Prometheus read, all jobs judged, the board made")
    expect_many_values()
    per_gpu_us: list[float] = []
    wall_s = 0.0
    for size in SIZES:
        wall_s, cpu_s, board = measure(size)
        if board.troubles or sum(node.gpus for node in board.nodes) != size:
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
