"""Format GPUs as other programs expect them."""

from collections.abc import Sequence

from fallow.core.gpu import Gpu
from fallow.core.units import printable


def by_index(gpus: Sequence[Gpu]) -> str:
    """Return indices as `0,3`; MIG instances as UUIDs, because CUDA knows them by UUID only."""
    return ",".join(str(gpu.uuid) if gpu.mig is not None else str(gpu.index) for gpu in gpus)


def by_uuid(gpus: Sequence[Gpu]) -> str:
    """Return UUIDs, which mean the same GPU to every program."""
    return ",".join(str(gpu.uuid) for gpu in gpus)


def environment(gpus: Sequence[Gpu], *, indices: bool = False) -> dict[str, str]:
    """Return the environment variables that make CUDA see these GPUs and no others."""
    given: object = gpus
    if not isinstance(given, Sequence) or not all(isinstance(gpu, Gpu) for gpu in given):
        raise TypeError(f"gpus is {gpus!r}; give GPUs, as `pick` and `claim` do")
    value = by_index(gpus) if indices else by_uuid(gpus)
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": value}


def for_docker(gpus: Sequence[Gpu]) -> str:
    """Return what `docker run --gpus` takes. Its parser splits at commas unless the value is in double quotes."""
    return f'"device={by_uuid(gpus) if any(gpu.mig for gpu in gpus) else by_index(gpus)}"'


def for_people(gpus: Sequence[Gpu]) -> str:
    """Return `GPU 3 (NVIDIA H100 80GB HBM3)`; with several GPUs each model is named once."""
    kinds = dict.fromkeys(printable(gpu.name) for gpu in gpus if isinstance(gpu.name, str))
    which = f"GPU{'' if len(gpus) == 1 else 's'} {', '.join(gpu.label for gpu in gpus)}"
    return f"{which} ({', '.join(kinds)})" if kinds else which
