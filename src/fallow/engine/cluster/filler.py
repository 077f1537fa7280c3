"""Fill idle GPUs of Slurm: keep a partition topped up with jobs of one GPU each, and let Slurm take the GPUs back.

The jobs are submitted fresh and are never requeued: Slurm starts a requeued job only minutes later. They are told by
their user, partition and name, which fallow gives to no other job. As long as anything is unknown, none is submitted.
"""

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

from fallow.actuators.process.queries import Answer
from fallow.core.cluster import ClusterJob, ClusterNode, NodeGpu
from fallow.core.ports import Clock
from fallow.core.protections import ClusterPart
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.cluster.ports import EngineLook
from fallow.engine.cluster.slurm_commands import SlurmCommands
from fallow.engine.history.journal import Journal
from fallow.readers.slurm import queue

_MOST_AT_ONCE = 500
_ENDS_QUICKLY_S = 10.0
_LONGEST_PAUSE_S = 300.0
_LONGEST_ID = 40
_CANCEL = "cancel its jobs"


@value
class SlurmFillerSpec:
    """A filler that is jobs of Slurm."""

    name: str
    command: tuple[str, ...]
    partition: str
    user: str
    """Whose jobs they are; empty for the user of the daemon."""
    cwd: str = "/"
    log: str = "/dev/null"
    env: Mapping[str, str] = {}

    @property
    def job_name(self) -> str:
        """Return the name of its jobs."""
        return f"fallow-filler-{self.name}"


class SlurmFiller:
    """One filler. Used by the thread of the fillers alone."""

    def __init__(
        self,
        spec: SlurmFillerSpec,
        commands: SlurmCommands,
        clock: Clock,
        say: Callable[[str], None],
        journal: Journal,
        *,
        dry_run: bool,
    ) -> None:
        self.spec = spec
        self._commands = commands
        self._now = clock.monotonic_s
        self._say = say
        self._journal = journal
        self._dry_run = dry_run
        self._submitted_s: float | None = None
        self._quick_ends = 0
        self._told = ""

    def top_up(self, look: Callable[[], EngineLook]) -> int:
        """Submit jobs for the GPUs that are idle; return how many."""
        # Those that wait come first: one that starts in between is then counted twice, and never not at all.
        waiting = self._waiting()
        idle = waiting if isinstance(waiting, Unknown) else idle_gpus(look(), self.spec.partition)
        if isinstance(idle, Unknown) or isinstance(waiting, Unknown):
            why = idle.why if isinstance(idle, Unknown) else ""
            self._tell(f"filler {self.spec.name}: no job is submitted: {why}")
            return 0
        wanted = min(idle - waiting, _MOST_AT_ONCE)
        if wanted <= 0:
            self._told = ""
            return 0
        because = Reason("partition_idle", partition=self.spec.partition, idle=idle, waiting=waiting)
        if self._dry_run:
            would = f"filler {self.spec.name}: would submit {_jobs(wanted)} to the partition {self.spec.partition}"
            if self._tell(would):
                self._journal.action(self._subject, f"dry run: {_submit(wanted)}", because, self._keys)
            return 0
        if self._pauses():
            return 0
        return self._submit(wanted, because)

    def end(self, why: Reason) -> None:
        """Cancel all its jobs."""
        if self._dry_run:
            return
        self._journal.action(self._subject, _CANCEL, why, self._keys)
        options = (*self._which(), f"--name={self.spec.job_name}")
        answer = self._commands.ask("scancel", *options, limit_s=_ENDS_QUICKLY_S)
        failed = _why_not(answer)
        self._journal.outcome(self._subject, _CANCEL, failed or "Slurm was told to cancel them", self._keys)

    @property
    def _subject(self) -> str:
        return f"filler {self.spec.name}"

    @property
    def _keys(self) -> list[str]:
        """Return what the journal keeps its actions under: `fallow why partition:NAME` shows them."""
        return [str(ClusterPart("partition", self.spec.partition))]

    def _which(self) -> Sequence[str]:
        whose = f"--user={self.spec.user}" if self.spec.user else "--me"
        return (whose, f"--partition={self.spec.partition}")

    def _waiting(self) -> int | Unknown:
        """Return how many of its jobs wait for a GPU, or are just being started."""
        options = ("--all", "--noheader", "--array", *self._which(), f"--name={self.spec.job_name}")
        text = self._commands.text("squeue", *options, "--states=PENDING,CONFIGURING", "--format", queue.FORMAT)
        rows = text if isinstance(text, Unknown) else queue.rows(text)
        return rows if isinstance(rows, Unknown) else len(rows)

    def _pauses(self) -> bool:
        """Return whether to wait: jobs that end at once are started ever more rarely."""
        if self._submitted_s is None:
            return False
        since_s = self._now() - self._submitted_s
        pause_s = min(_LONGEST_PAUSE_S, 2.0**self._quick_ends) if self._quick_ends else 0.0
        if since_s < pause_s:
            return True
        self._quick_ends = self._quick_ends + 1 if since_s < _ENDS_QUICKLY_S + pause_s else 0
        if self._quick_ends > 3:
            self._tell(
                f"filler {self.spec.name}: its jobs end soon; the next follow in {duration_for_people(2 * pause_s)}"
            )
        return False

    def _submit(self, count: int, why: Reason) -> int:
        spec = self.spec
        self._journal.action(self._subject, _submit(count), why, self._keys)
        line = ["env", *(f"{name}={text}" for name, text in spec.env.items()), *spec.command]
        answer = self._commands.ask(
            "sbatch",
            "--parsable",
            f"--array=1-{count}",
            f"--partition={spec.partition}",
            f"--job-name={spec.job_name}",
            "--comment=a filler of fallow; it leaves when its GPU is needed",
            "--gres=gpu:1",
            "--ntasks=1",
            "--no-requeue",
            "--export=NIL",
            f"--chdir={spec.cwd}",
            f"--output={spec.log}",
            "--open-mode=append",
            *((f"--uid={spec.user}",) if spec.user else ()),
            f"--wrap=exec {shlex.join(line)}",
        )
        self._submitted_s = self._now()
        failed = _why_not(answer)
        self._journal.outcome(self._subject, _submit(count), failed or _array(answer), self._keys)
        if failed:
            self._quick_ends += 1
            self._tell(f"filler {spec.name}: Slurm takes no job of it: {failed}")
            return 0
        self._told = ""
        self._say(f"filler {spec.name}: submitted {_jobs(count)} to the partition {spec.partition}")
        return count

    def _tell(self, sentence: str) -> bool:
        """Say what goes on, once; return whether it was said now."""
        is_new = sentence != self._told
        if is_new:
            self._told = sentence
            self._say(sentence)
        return is_new


def idle_gpus(look: EngineLook, partition: str) -> int | Unknown:
    """Return how many GPUs of a partition no job holds; Unknown if that cannot be told.

    While it is unclear what a job holds, as a user can have it by a name that reads like a field of Slurm, the nodes
    say how many GPUs are held.
    """
    if isinstance(look.jobs, Unknown):
        return look.jobs
    if isinstance(look.nodes, Unknown):
        return look.nodes
    unclear: ClusterJob | None = None
    held: dict[str, set[int]] = {}
    for job in look.jobs:
        if job.no_way is not None and not job.places:
            unclear = job
        for place in job.places:
            if isinstance(place, NodeGpu):
                held.setdefault(place.node, set()).add(place.index)
    idle = 0
    for node in look.nodes:
        if node.trouble is None and not node.is_off and partition in _partitions(node):
            if unclear is not None and node.used is None:
                return Unknown(f"job {unclear.id}: {unclear.no_way}")
            by_node = 0 if unclear is None else node.used or 0
            idle += max(0, node.gpus - max(by_node, len(held.get(node.name, ()))))
    return idle


def _partitions(node: ClusterNode) -> Collection[str]:
    return node.labels.get("partition", "").split(",")


def _submit(count: int) -> str:
    return f"submit {_jobs(count)}"


def _why_not(answer: Answer | Unknown) -> str:
    """Return why Slurm did not do it; empty if it did."""
    if isinstance(answer, Unknown):
        return f"whether it was done is unknown: {answer.why}"
    return "" if answer.ok else answer.last_line


def _array(answer: Answer | Unknown) -> str:
    """Return the job that sbatch has made, as it says."""
    said = "" if isinstance(answer, Unknown) else answer.output.decode(errors="replace")
    return f"Slurm job {printable(said.partition(';')[0].strip())[:_LONGEST_ID]}"


def _jobs(count: int) -> str:
    return "one job" if count == 1 else f"{count} jobs"
