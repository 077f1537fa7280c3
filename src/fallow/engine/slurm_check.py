"""`fallow slurm check`: whether GPUs of a node of Slurm are there, answer and, if that is asked, are free.

In a job's environment, as slurmd gives it to a prolog, these are the GPUs of the job, which may have none; else all
of the node.
"""

from collections.abc import Mapping, Sequence

from fallow.core.activity import AVAILABLE
from fallow.core.gpu_status import GpuStatus, people_on
from fallow.core.ports import Depth
from fallow.core.units import is_number, printable
from fallow.core.unknown import Unknown
from fallow.engine.machine.observe import Watcher
from fallow.engine.machine.world import World

_GAP_S = 60.0
_MOST_GPUS = 1024
_LONGEST_NAME = 64


def trouble_of(world: World, *, free: bool, count: int | None) -> str | None:
    """Return what is wrong, in one sentence; None if all is well. `count` is how many GPUs the node must have."""
    names = gpus_of_job(world.environ)
    if names == () and count is None:
        return None
    reader = world.gpu_reader
    snapshot = reader.describe(reader.look(Depth.ALL))
    gpus = Watcher(world, _GAP_S).status(snapshot).gpus
    chosen, missing = (gpus, []) if names is None else _named(names, gpus)
    cards = len({gpu.index for gpu in gpus})
    troubles = [f"the driver lists {cards} of {count} GPUs"] if count is not None and cards < count else []
    troubles += [f"GPU {name} is not there; the driver lists {cards}" for name in missing]
    troubles += [why for gpu in chosen if (why := _trouble(gpu, free=free)) is not None]
    return "; ".join(troubles) or None


def gpus_of_job(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the GPUs of the job of the environment: numbers of device files, as Slurm counts, or UUIDs.

    None if there is no job.
    """
    if not environ.get("SLURM_JOB_ID"):
        return None
    # In a step the numbers of CUDA count from the GPUs of the step; slurmd gives the prolog those of the node.
    return _listed(environ.get("SLURM_JOB_GPUS") or environ.get("CUDA_VISIBLE_DEVICES", ""))


def _trouble(gpu: GpuStatus, *, free: bool) -> str | None:
    """Return what is wrong with one GPU. Fillers leave by themselves, so one with only these is free."""
    if gpu.trouble is not None:
        return f"GPU {gpu.label}: {gpu.trouble}"
    if free and gpu.activity not in AVAILABLE:
        who = "".join(f"pid {holder.pid} is on it, " for holder in people_on(gpu)[:1])
        return f"GPU {gpu.label} is not free: {who}{gpu.because}"
    return None


def _named(names: Sequence[str], gpus: Sequence[GpuStatus]) -> tuple[Sequence[GpuStatus], list[str]]:
    """Return the GPUs with these names, and the names of those that are not there."""
    by_minor = all(not isinstance(gpu.minor, Unknown) for gpu in gpus)
    found: list[GpuStatus] = []
    missing: list[str] = []
    for name in names:
        some = [gpu for gpu in gpus if _is_called(gpu, name, by_minor=by_minor)]
        found += some
        missing += [] if some else [name]
    return found, missing


def _is_called(gpu: GpuStatus, name: str, *, by_minor: bool) -> bool:
    if not is_number(name):
        return not isinstance(gpu.uuid, Unknown) and gpu.uuid == name
    return str(gpu.minor if by_minor else gpu.index) == str(int(name))


def _listed(text: str) -> tuple[str, ...]:
    """Return the GPUs of `0,2` or `0-3`, or of UUIDs; what makes no sense stays a name, that no GPU has."""
    names: list[str] = []
    for word in text.split(",")[:_MOST_GPUS]:
        first, dash, last = word.strip().partition("-")
        if dash and is_number(first) and is_number(last) and int(first) <= int(last) < int(first) + _MOST_GPUS:
            names += map(str, range(int(first), int(last) + 1))
        elif word.strip():
            names.append(printable(word.strip())[:_LONGEST_NAME])
    return tuple(dict.fromkeys(names))
