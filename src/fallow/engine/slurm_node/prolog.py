"""`fallow slurm prolog`: whether the GPUs of a job are there, answer, and are free, before the job begins."""

from collections.abc import Callable

from fallow.core.activity import AVAILABLE
from fallow.core.gpu_status import GpuStatus, people_on
from fallow.core.ports import Depth
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.history.run import open_run
from fallow.engine.machine.observe import Watcher
from fallow.engine.machine.world import World
from fallow.engine.slurm_node.job import NodeJob, cards_of
from fallow.engine.slurm_node.leftovers import is_shown_to_be_of

_GAP_S = 60.0


def run_prolog(world: World, job: NodeJob, say: Callable[[str], None], *, dry_run: bool) -> str | None:
    """Return why the job cannot begin, and write it to the journal: Slurm itself only notes that a prolog failed."""
    trouble = trouble_before(world, job)
    if trouble is not None and not dry_run:
        with open_run(world, say) as run:
            run.journal.refusal(job.subject, "begin", Reason("unhealthy", trouble=trouble), (job.key,))
    return trouble


def trouble_before(world: World, job: NodeJob) -> str | None:
    """Return why the job cannot begin on its GPUs, in one sentence; None if all of them are free and answer."""
    if not job.gpus:
        return None
    reader = world.gpu_reader
    snapshot = reader.describe(reader.look(Depth.EVERYTHING))
    cards, missing = cards_of(job, Watcher(world, _GAP_S).status(snapshot).gpus)
    if missing:
        return f"GPU {missing[0]} of {job.subject} is not there; the driver lists {len(snapshot.gpus)}"
    for gpu in cards:
        assert isinstance(gpu, GpuStatus)
        why = _trouble(world, job, gpu)
        if why is not None:
            return why
    return None


def _trouble(world: World, job: NodeJob, gpu: GpuStatus) -> str | None:
    """Return why one GPU cannot be used. Fillers leave by themselves, and the job's own processes may be there."""
    if gpu.activity in AVAILABLE:
        return None
    people = people_on(gpu)
    if gpu.trouble is None and people and not isinstance(gpu.holders, Unknown):
        others = [holder.pid for holder in people if not is_shown_to_be_of(world, job, holder.pid)]
        if not others:
            return None
        return f"GPU {gpu.label} is not free for {job.subject}: pid {others[0]} is on it ({gpu.because})"
    return f"GPU {gpu.label} is not free for {job.subject}: {gpu.because}"
