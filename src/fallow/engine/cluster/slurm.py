"""Slurm as an engine of a cluster: its jobs and nodes, as scontrol and squeue print them; scancel and requeue.

The queue decides which jobs there are, who their users are and since when they run. The details say which GPUs they
hold; they are read when there is a job that was not there before, and once a minute.
"""

import os
from collections.abc import Collection, Mapping, Sequence

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.cluster import ClusterJob, ClusterNode, Engine, NodeGpu
from fallow.core.findings import Outcome
from fallow.core.ports import Clock
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.cluster.slurm_actions import SlurmActions
from fallow.engine.cluster.slurm_commands import SlurmCommands
from fallow.readers.slurm import jobs as job_lines
from fallow.readers.slurm import nodes as node_lines
from fallow.readers.slurm import queue
from fallow.readers.slurm.jobs import JobDetails
from fallow.readers.slurm.queue import QueueRow

_READ_AGAIN_AFTER_S = 60.0
_Known = tuple[float | Unknown, JobDetails | Unknown]


def slurm_engine(
    clock: Clock,
    environ: Mapping[str, str] | None = None,
    conf: str = "",
    background: Collection[str] = (),
) -> "SlurmEngine":
    """Return the engine for the Slurm that `conf` or the environment names; PartMissing without its commands.

    `background`: the partitions whose jobs give way to all others.
    """
    commands = SlurmCommands(os.environ if environ is None else environ, conf)
    commands.demand("scontrol", "squeue", "scancel")
    return SlurmEngine(clock, commands, background)


class SlurmEngine:
    """Lists Slurm's jobs with GPUs, and acts on them. Used by the cluster's thread alone."""

    engine = Engine.SLURM

    def __init__(self, clock: Clock, commands: SlurmCommands, background: Collection[str] = ()) -> None:
        self._now = clock.monotonic_s
        self._commands = commands
        self._background = background
        self._actions = SlurmActions(commands, clock)
        self._known: dict[int, _Known] = {}
        """The details of each job that runs, with the start for which they were read."""
        self._nodes: tuple[ClusterNode, ...] | Unknown = Unknown("not asked yet", asked=False)
        self._read_at_s: float | None = None

    def look(self) -> EngineLook:
        """Return all jobs that hold GPUs now, the nodes with GPUs, and how many GPUs are waited for."""
        text = self._commands.text("squeue", "--all", "--noheader", "--states=all", "--format", queue.FORMAT)
        rows = text if isinstance(text, Unknown) else queue.rows(text)
        if isinstance(rows, Unknown):
            return EngineLook(rows, rows, rows)
        held = [row for row in rows if row.state in queue.HELD_STATES]
        self._known = {row.number: known for row in held if (known := self._details_of(row)) is not None}
        is_old = self._read_at_s is None or self._now() - self._read_at_s >= _READ_AGAIN_AFTER_S
        if is_old or len(self._known) < len(held):
            failed = self._read_details(held)
            if failed is not None:
                return EngineLook(failed, failed, failed)
        pending = queue.pending_gpus("") if all(row.state != "PENDING" for row in rows) else self._pending()
        return EngineLook(self._jobs(held), self._nodes, pending)

    def way(self, job: ClusterJob, action: Ask | Kill) -> str:
        """Return what the action does, after "would"."""
        return self._actions.way(job, action)

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:
        """Write the warning into the job's comment, and to its terminal."""
        return self._actions.warn(job, action)

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:
        """Take the warning out of the job's comment."""
        return self._actions.cancel(job, action)

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        """Signal the job, or put it back into the queue."""
        return self._actions.ask(job, action)

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:
        """Cancel the job, or put it back into the queue."""
        return self._actions.kill(job, action)

    def _details_of(self, row: QueueRow) -> _Known | None:
        known = self._known.get(row.number)
        return known if known is not None and known[0] == row.start_wall_s else None

    def _pending(self) -> int | Unknown:
        options = ("--all", "--noheader", "--array", "--states=PENDING")
        text = self._commands.text("squeue", *options, "--Format", queue.PENDING_FIELDS)
        return text if isinstance(text, Unknown) else queue.pending_gpus(text, self._background)

    def _read_details(self, held: Sequence[QueueRow]) -> Unknown | None:
        """Read all jobs and nodes again; return why that failed."""
        text = self._commands.text("scontrol", "--all", "--details", "--oneliner", "show", "job")
        if isinstance(text, Unknown):
            return text
        nodes = self._commands.text("scontrol", "--all", "--details", "--oneliner", "show", "node")
        self._nodes = nodes if isinstance(nodes, Unknown) else node_lines.nodes(nodes)
        found = job_lines.details(text)
        known: dict[int, _Known] = {}
        for row in held:
            details = found.get(row.number, Unknown("scontrol does not list it"))
            if isinstance(details, JobDetails) and not _agree(row, details):
                details = Unknown("scontrol and squeue disagree about it")
            known[row.number] = (row.start_wall_s, details)
        self._known = known
        self._read_at_s = self._now()
        return None

    def _jobs(self, held: Sequence[QueueRow]) -> tuple[ClusterJob, ...]:
        """Return the jobs with GPUs. The parts of a heterogeneous job are one: Slurm ends them together."""
        parts: dict[str, list[tuple[QueueRow, JobDetails | Unknown]]] = {}
        for row in held:
            parts.setdefault(row.id.partition("+")[0], []).append((row, self._known[row.number][1]))
        return tuple(job for id, each in parts.items() if (job := _job(id, each)) is not None)  # noqa: A001


def _agree(row: QueueRow, details: JobDetails) -> bool:
    same_start = row.start_wall_s == details.start_wall_s or isinstance(row.start_wall_s, Unknown)
    return (row.uid, row.id) == (details.uid, details.id) and same_start


def _job(id: str, parts: Sequence[tuple[QueueRow, JobDetails | Unknown]]) -> ClusterJob | None:  # noqa: A002
    """Return one job of its parts; None if it holds no GPU."""
    first, of_first = parts[0]
    places: list[NodeGpu] = []
    no_way: str | None = None
    for row, details in parts:
        if isinstance(details, Unknown):
            no_way = f"fallow cannot tell what it holds: {details.why}"
        elif isinstance(details.gpus, Unknown):
            no_way = f"fallow cannot tell what it holds: {details.gpus.why}"
        else:
            places += details.gpus
        if row.state != queue.RUNNING:
            no_way = no_way or "it is suspended"
    if not places and no_way is None:
        return None
    known = None if isinstance(of_first, Unknown) else of_first
    nodes = sum(row.nodes for row, _ in parts)
    labels = {"nodes": str(nodes)}
    if known is not None:
        given = {"partition": known.partition, "account": known.account, "qos": known.qos}
        labels |= {name: printable(text) for name, text in given.items() if text}
    return ClusterJob(
        engine=Engine.SLURM,
        id=id,
        name="?" if known is None else printable(known.name),
        user=first.user,
        places=tuple(places),
        started_wall_s=first.start_wall_s,
        interactive=known is not None and known.interactive,
        labels=labels,
        no_way=no_way,
    )
