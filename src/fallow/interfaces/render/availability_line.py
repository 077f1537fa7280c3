"""The first line of `fallow status` and `fallow top`: the machine, and what is available on it."""

from collections.abc import Iterator

from fallow.core.gpu_status import Status
from fallow.core.units import printable, shortened
from fallow.core.unknown import Unknown

_LONGEST_LIST = 40
_LONGEST_HOST = 40


def availability_lines(status: Status, visible_devices: str | None, to_you: int) -> Iterator[str]:
    """Yield the line as it is best, then with less and less in it, for screens on which that does not fit.

    `to_you`: how many of the available GPUs the outer CUDA_VISIBLE_DEVICES, if there is one, allows.
    """
    names = list(map(model_names(status).__getitem__, (gpu.name for gpu in status.gpus)))
    models = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
    count = "1 GPU" if len(names) == 1 else f"{len(names)} GPUs"
    host = shortened(status.host, _LONGEST_HOST)
    for many, parts, times in (
        (models, True, True),
        (models, False, True),
        (count, False, True),
        (models, False, False),
        (count, False, False),
    ):
        what = f"{many} (simulated)" if status.simulated else many
        available = _available(status, visible_devices, to_you, parts=parts, unused_for=times)
        yield printable(f"{host}: {what}: {available}")
    if visible_devices is not None:
        in_all = status.summed_up("available in all", parts=False, unused_for=False)
        yours = f"{host}: {what}: {to_you or 'none'} available to you"
        yield from map(printable, (f"{yours} (CUDA_VISIBLE_DEVICES), {in_all}", f"{yours}, {in_all}", yours))


def _available(status: Status, visible_devices: str | None, to_you: int, **told: bool) -> str:
    if visible_devices is None:
        return status.summed_up("available", **told)
    allowed = shortened(visible_devices, _LONGEST_LIST) or "''"
    yours = f"{to_you or 'none'} available to you (CUDA_VISIBLE_DEVICES={allowed})"
    return f"{yours}, {status.summed_up('available in all', **told)}"


def model_names(status: Status) -> dict[str | Unknown, str]:
    """Return `H100` for each name: without its maker, and without sizes unless two differ in nothing else."""
    names = dict.fromkeys(gpu.name for gpu in status.gpus)
    full = ["unknown" if isinstance(name, Unknown) else printable(name.removeprefix("NVIDIA ")) for name in names]
    short = [" ".join(word for word in name.split(" ") if not _is_size(word)) for name in full]
    return dict(zip(names, short if len(set(short)) == len(set(full)) else full, strict=True))


def _is_size(word: str) -> bool:
    """Return whether a word of a name is the size or kind of its memory: `80GB`, `HBM3`."""
    return word.startswith("HBM") or (word.endswith("GB") and word[:-2].isdigit())
