"""The environment for processes that fallow starts."""

from collections.abc import Mapping

_OF_A_LAUNCH = ("FALLOW_CLAIM", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def without_gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that give GPUs to a job, for a process that needs none."""
    return {name: text for name, text in environ.items() if name not in _OF_A_LAUNCH}
