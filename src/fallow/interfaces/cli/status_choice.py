"""Which GPUs `fallow status` shows, and in which order: `--mine`, `--idle`, `--sort`."""

from collections.abc import Callable, Sequence

from fallow.core.activity import UNUSED, Activity
from fallow.core.gpu_status import GpuStatus
from fallow.core.main_job import main_job
from fallow.core.unknown import Unknown
from fallow.interfaces.render.refused_text import folded

Asked = Callable[[GpuStatus], bool | None]
"""Whether a GPU is meant; None if that cannot be told."""


def chosen(
    gpus: Sequence[GpuStatus], user: str, *, mine: bool, idle: bool, sort: str | None
) -> tuple[tuple[GpuStatus, ...], str | None]:
    """Return the GPUs that are meant, in order, and what to say about the others."""
    found, remarks = list(gpus), []
    if mine:
        found, unclear = _split(found, lambda gpu: _is_of(gpu, user))
        remarks += _remarks(found, unclear, f"no job and no claim of {user} is on a GPU", f"of {user}")
    if idle:
        found, unclear = _split(found, _is_unused)
        remarks += _remarks(found, unclear, "no GPU is held and unused" + f" by {user}" * mine, "unused")
    if sort is not None:
        found.sort(key=_ORDERS[sort])
    return tuple(found), "; ".join(dict.fromkeys(remarks)) or None


def _split(gpus: Sequence[GpuStatus], asked: Asked) -> tuple[list[GpuStatus], list[GpuStatus]]:
    """Return those that are meant, and those of which that cannot be told."""
    answers = [(gpu, asked(gpu)) for gpu in gpus]
    return [gpu for gpu, answer in answers if answer], [gpu for gpu, answer in answers if answer is None]


def _remarks(found: list[GpuStatus], unclear: list[GpuStatus], none: str, asked: str) -> list[str]:
    """Return what to say if nothing was found, and of which GPUs it is not known."""
    if unclear:
        return [f"GPU {folded([gpu.label for gpu in unclear])}: not known whether {asked}"]
    return [] if found else [none]


def _is_of(gpu: GpuStatus, user: str) -> bool | None:
    """Return whether the user has a job, a filler or a claim on the GPU."""
    if isinstance(gpu.holders, Unknown) or isinstance(gpu.claim, Unknown):
        return None
    users = [holder.user for holder in gpu.holders]
    users += [each.user or Unknown("not shown") for each in (gpu.claim, gpu.filler) if each is not None]
    if user in users:
        return True
    return None if any(isinstance(each, Unknown) for each in users) else False


def _is_unused(gpu: GpuStatus) -> bool | None:
    return None if gpu.activity is Activity.UNKNOWN else gpu.activity in UNUSED


def _most(figure: float | Unknown) -> tuple[bool, float]:
    """Return a key that puts the largest first, and last what is not known."""
    return (True, 0.0) if isinstance(figure, Unknown) else (False, -figure)


def _by_user(gpu: GpuStatus) -> tuple[int, str]:
    """Return a key that puts GPUs without a user behind those whose user is not known."""
    job = main_job(gpu)
    if job is None:
        return 2, ""
    return (1, "") if isinstance(job.user, Unknown) else (0, job.user)


_ORDERS: dict[str, Callable[[GpuStatus], tuple[float | str, ...]]] = {
    "index": lambda gpu: (gpu.index, -1 if gpu.mig is None else gpu.mig.slot),
    "memory": lambda gpu: _most(gpu.memory if isinstance(gpu.memory, Unknown) else gpu.memory.used_bytes),
    "utilization": lambda gpu: _most(gpu.utilization),
    "idle": lambda gpu: (0, -(gpu.for_s or 0.0)) if gpu.activity in UNUSED else (1, 0.0),
    "user": _by_user,
}
