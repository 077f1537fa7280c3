"""fallow: one tool for idle GPUs."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fallow.core.activity import Activity as Activity
    from fallow.core.errors import FallowError as FallowError
    from fallow.core.errors import NoDriver as NoDriver
    from fallow.core.errors import NotEnoughGpus as NotEnoughGpus
    from fallow.core.errors import NotPermitted as NotPermitted
    from fallow.core.errors import WrongUsage as WrongUsage
    from fallow.core.gpu import Gpu as Gpu
    from fallow.core.gpu import Holder as Holder
    from fallow.core.gpu_status import GpuStatus as GpuStatus
    from fallow.core.gpu_status import Status as Status
    from fallow.core.unknown import Unknown as Unknown
    from fallow.interfaces.python import ClaimedGpus as ClaimedGpus
    from fallow.interfaces.python import claim as claim
    from fallow.interfaces.python import gpus as gpus
    from fallow.interfaces.python import pick as pick
    from fallow.interfaces.python import watch as watch
    from fallow.interfaces.render.gpu_names import environment as environment

_HOMES = {
    "Activity": "core.activity",
    "ClaimedGpus": "interfaces.python",
    "FallowError": "core.errors",
    "Gpu": "core.gpu",
    "Holder": "core.gpu",
    "NoDriver": "core.errors",
    "NotEnoughGpus": "core.errors",
    "NotPermitted": "core.errors",
    "GpuStatus": "core.gpu_status",
    "Status": "core.gpu_status",
    "Unknown": "core.unknown",
    "WrongUsage": "core.errors",
    "claim": "interfaces.python",
    "environment": "interfaces.render.gpu_names",
    "gpus": "interfaces.python",
    "pick": "interfaces.python",
    "watch": "interfaces.python",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  names and homes are kept in one place


def __getattr__(name: str) -> object:
    """Load each part when it is first used: `import fallow` costs next to nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fallow' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value = getattr(import_module(f"fallow.{home}"), name)
    globals()[name] = value
    return value
