"""Find what is left of a Slurm job on its GPUs after its end, and who else is there.

A process is left over only if it is shown to belong to this very job, and is on one of the job's GPUs: the driver
lists it there, or it has the device file open. Nothing is concluded from its user: they may run another job here.
"""

from collections.abc import Mapping, Sequence

from fallow.core.gpu import Gpu
from fallow.core.process import Process
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.engine.slurm_node.job import NodeJob
from fallow.readers.slurm_processes import Proof, may_be_of, slurm_trace


@value
class Leftover:
    """A process of a job that has ended."""

    process: Process
    program: str
    gpus: tuple[str, ...]
    """The labels of the GPUs that it is on."""
    proof: Proof

    @property
    def name(self) -> str:
        """Return its name for people."""
        return f"pid {self.process.pid} ({self.program})"


@value
class OnCards:
    """Who is on the GPUs of a job."""

    leftovers: tuple[Leftover, ...]
    strangers: tuple[str, ...]
    """Sentences about processes that are not shown to be of the job, and are left alone."""
    unknown: tuple[str, ...]
    """Sentences about GPUs whose holders are not known."""


def on_cards(world: World, job: NodeJob, cards: Sequence[Gpu]) -> OnCards:
    """Return what of the job is on its GPUs, and who else."""
    holders: dict[int, list[str]] = {}
    unknown = []
    for gpu in cards:
        if isinstance(gpu.holders, Unknown):
            unknown.append(f"who is on GPU {gpu.label} is not known: {gpu.holders.why}")
            continue
        for holder in gpu.holders:
            holders.setdefault(holder.pid, []).append(gpu.label)
    nodes = {
        f"{world.device_folder}/nvidia{gpu.minor}": gpu.label
        for gpu in cards
        if world.simulated is None and gpu.mig is None and not isinstance(gpu.minor, Unknown)
    }
    left = [
        found
        for pid in world.proc.pids()
        if may_be_of(world.proc, pid, job.id, job.uid)
        and (found := _leftover(world, job, pid, holders, nodes)) is not None
    ]
    ours = {each.process.pid for each in left}
    strangers = [
        f"pid {pid} ({_program(world, pid)}) is on GPU {', '.join(gpus)} and not of {job.subject}: it is left alone"
        for pid, gpus in holders.items()
        if pid not in ours and belongs_elsewhere(world, job, pid)
    ]
    return OnCards(tuple(left), tuple(strangers), tuple(unknown))


def belongs_elsewhere(world: World, job: NodeJob, pid: int) -> bool:
    """Return whether a process is not shown to be of this job, on this node."""
    trace = slurm_trace(world.proc, pid)
    if trace is None or trace.job != job.id:
        return True
    if job.node and trace.node and trace.node != job.node:
        return True
    return trace.proof is Proof.ENVIRONMENT and job.uid is not None and world.proc.uid(pid) != job.uid


def is_shown_to_be_of(world: World, job: NodeJob, pid: int) -> bool:
    """Return whether a process is of this job by more than its own word, or of the job's user by the kernel's."""
    trace = slurm_trace(world.proc, pid)
    says_it_only = job.uid is None and trace is not None and trace.proof is Proof.ENVIRONMENT
    return not says_it_only and not belongs_elsewhere(world, job, pid)


def is_of_another_job(world: World, job: NodeJob, pid: int) -> bool:
    """Return whether something shows that a process belongs to another job, as a child of a leftover may."""
    return slurm_trace(world.proc, pid) is not None and belongs_elsewhere(world, job, pid)


def _leftover(
    world: World, job: NodeJob, pid: int, holders: Mapping[int, list[str]], nodes: Mapping[str, str]
) -> Leftover | None:
    stat = world.proc.stat(pid)
    if stat is None or stat.of_kernel or world.proc.has_ended(pid, stat.birth) or belongs_elsewhere(world, job, pid):
        return None
    opened = world.proc.open_counts(pid, nodes) if nodes else {}
    gpus = dict.fromkeys((*holders.get(pid, ()), *(nodes[path] for path in opened)))
    trace = slurm_trace(world.proc, pid)
    if not gpus or trace is None:
        return None
    return Leftover(Process(pid, stat.birth), _program(world, pid), tuple(sorted(gpus)), trace.proof)


def _program(world: World, pid: int) -> str:
    command = world.proc.command(pid)
    return "a hidden program" if isinstance(command, Unknown) else program_name(command)
