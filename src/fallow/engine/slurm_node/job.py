"""The Slurm job that a prolog or an epilog runs for, from the environment that slurmd gives to it."""

from collections.abc import Mapping, Sequence

from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.units import is_number, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

_MOST_GPUS = 1024
_LONGEST_NAME = 64


@value
class NodeJob:
    """A job, and the GPUs that Slurm gave to it on this node."""

    id: str
    uid: int | None
    """Its user; None if it is not said."""
    user: str
    gpus: tuple[str, ...]
    """Numbers of device files, as Slurm counts, or UUIDs."""
    node: str

    @property
    def subject(self) -> str:
        """Return its name in the journal and in messages."""
        return f"{self.user}'s Slurm job {self.id}" if self.user else f"Slurm job {self.id}"

    @property
    def key(self) -> str:
        """Return the key under which the journal keeps events about it."""
        return f"slurm:{self.id}"


def job_of(environ: Mapping[str, str], job: str | None = None, gpus: str | None = None) -> NodeJob:
    """Return the job of the environment, or the one that is named; raise WrongUsage if there is none."""
    number = job if job is not None else environ.get("SLURM_JOB_ID", "")
    if not is_number(number):
        raise WrongUsage("SLURM_JOB_ID does not name a job", "call this from Slurm's Prolog or Epilog, or use --job")
    uid = environ.get("SLURM_JOB_UID", "") if job is None else ""
    # In a step the numbers of CUDA count from the GPUs of the step; slurmd gives the prolog those of the node.
    text = gpus if gpus is not None else environ.get("SLURM_JOB_GPUS") or environ.get("CUDA_VISIBLE_DEVICES", "")
    return NodeJob(
        id=number,
        uid=int(uid) if is_number(uid) else None,
        user=printable(environ.get("SLURM_JOB_USER", ""))[:_LONGEST_NAME] if job is None else "",
        gpus=_listed(text),
        node=printable(environ.get("SLURMD_NODENAME", ""))[:_LONGEST_NAME],
    )


def cards_of(job: NodeJob, gpus: Sequence[Gpu]) -> tuple[list[Gpu], list[str]]:
    """Return the GPUs of the job, and the names of those that are not there."""
    by_minor = all(not isinstance(gpu.minor, Unknown) for gpu in gpus)
    found, missing = [], []
    for name in job.gpus:
        some = [gpu for gpu in gpus if _is_called(gpu, name, by_minor=by_minor)]
        found += some
        missing += [] if some else [name]
    return found, missing


def _is_called(gpu: Gpu, name: str, *, by_minor: bool) -> bool:
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
