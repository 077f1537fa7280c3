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
    from fallow.core.seen import SeenGpu as SeenGpu
    from fallow.core.seen import Sight as Sight
    from fallow.core.unknown import Unknown as Unknown
    from fallow.faces.library import claim as claim
    from fallow.faces.library import gpus as gpus
    from fallow.faces.library import pick as pick
    from fallow.faces.library import watch as watch
    from fallow.faces.naming import environment as environment

_HOMES = {
    "Activity": "core.activity",
    "FallowError": "core.errors",
    "Gpu": "core.gpu",
    "Holder": "core.gpu",
    "NoDriver": "core.errors",
    "NotEnoughGpus": "core.errors",
    "NotPermitted": "core.errors",
    "SeenGpu": "core.seen",
    "Sight": "core.seen",
    "Unknown": "core.unknown",
    "WrongUsage": "core.errors",
    "claim": "faces.library",
    "environment": "faces.naming",
    "gpus": "faces.library",
    "pick": "faces.library",
    "watch": "faces.library",
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
