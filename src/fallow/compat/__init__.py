"""The commands and APIs of five older tools, as thin layers on fallow's engine: change one word and keep the rest."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fallow.compat.selecting import GpuInfo as GpuInfo
    from fallow.compat.selecting import gpuselect as gpuselect
    from fallow.compat.selecting import gpustatus as gpustatus
    from fallow.compat.sentinel import Sentinel as Sentinel
    from fallow.compat.sentinel import SentinelState as SentinelState
    from fallow.compat.sentinel import get_gpu_usage as get_gpu_usage

_HOMES = {
    "GpuInfo": "selecting",
    "Sentinel": "sentinel",
    "SentinelState": "sentinel",
    "get_gpu_usage": "sentinel",
    "gpuselect": "selecting",
    "gpustatus": "selecting",
}
__all__ = [*_HOMES]  # noqa: PLE0604  each name is written once, with its module


def __getattr__(name: str) -> object:
    """Import the module of a name when it is first used."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fallow.compat' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value = getattr(import_module(f"fallow.compat.{home}"), name)
    globals()[name] = value
    return value
