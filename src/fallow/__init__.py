"""fallow: one tool for idle GPUs."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.core.activity import Activity as Activity
    from fallow.core.errors import FallowError as FallowError
    from fallow.core.errors import NoDaemon as NoDaemon
    from fallow.core.errors import NoDriver as NoDriver
    from fallow.core.errors import NotEnoughGpus as NotEnoughGpus
    from fallow.core.errors import NothingFound as NothingFound
    from fallow.core.errors import NotPermitted as NotPermitted
    from fallow.core.errors import WrongUsage as WrongUsage
    from fallow.core.unknown import Unknown as Unknown
    from fallow.core.version import __version__ as __version__
    from fallow.interfaces.python.answers import Event as Event
    from fallow.interfaces.python.answers import Explanation as Explanation
    from fallow.interfaces.python.answers import Idle as Idle
    from fallow.interfaces.python.answers import IdleGpu as IdleGpu
    from fallow.interfaces.python.answers import IdleJob as IdleJob
    from fallow.interfaces.python.answers import ParkedJob as ParkedJob
    from fallow.interfaces.python.answers import Report as Report
    from fallow.interfaces.python.answers import ReportGpu as ReportGpu
    from fallow.interfaces.python.answers import ReportLine as ReportLine
    from fallow.interfaces.python.answers import RuleState as RuleState
    from fallow.interfaces.python.answers import Status as Status
    from fallow.interfaces.python.calls import claim as claim
    from fallow.interfaces.python.calls import environment as environment
    from fallow.interfaces.python.calls import gpus as gpus
    from fallow.interfaces.python.calls import idle as idle
    from fallow.interfaces.python.calls import pick as pick
    from fallow.interfaces.python.calls import protect as protect
    from fallow.interfaces.python.calls import protections as protections
    from fallow.interfaces.python.calls import report as report
    from fallow.interfaces.python.calls import status as status
    from fallow.interfaces.python.calls import watch as watch
    from fallow.interfaces.python.calls import why as why
    from fallow.interfaces.python.claimed import ClaimedGpus as ClaimedGpus
    from fallow.interfaces.python.claimed import Claims as Claims
    from fallow.interfaces.python.claimed import claimed as claimed
    from fallow.interfaces.python.gpus import Claim as Claim
    from fallow.interfaces.python.gpus import Filler as Filler
    from fallow.interfaces.python.gpus import Gpu as Gpu
    from fallow.interfaces.python.gpus import Gpus as Gpus
    from fallow.interfaces.python.gpus import GpuStatus as GpuStatus
    from fallow.interfaces.python.gpus import Holder as Holder
    from fallow.interfaces.python.gpus import Owner as Owner
    from fallow.interfaces.python.protections import Protection as Protection
    from fallow.interfaces.python.protections import Protections as Protections

_NAMES = {
    "core.activity": ("Activity",),
    "core.errors": (
        *("FallowError", "NoDaemon", "NoDriver", "NotEnoughGpus", "NothingFound", "NotPermitted", "WrongUsage"),
    ),
    "core.unknown": ("Unknown",),
    "core.version": ("__version__",),
    "interfaces.python.answers": (
        *("Event", "Explanation", "Idle", "IdleGpu", "IdleJob", "ParkedJob", "Report", "ReportGpu", "ReportLine"),
        *("RuleState", "Status"),
    ),
    "interfaces.python.calls": (
        *("claim", "environment", "gpus", "idle", "pick", "protect", "protections", "report", "status", "watch"),
        "why",
    ),
    "interfaces.python.claimed": ("ClaimedGpus", "Claims", "claimed"),
    "interfaces.python.gpus": ("Claim", "Filler", "Gpu", "GpuStatus", "Gpus", "Holder", "Owner"),
    "interfaces.python.protections": ("Protection", "Protections"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = [*_HOMES]  # noqa: PLE0604  names and homes are kept in one place


def __getattr__(name: str) -> object:
    """Load each part when it is first used: `import fallow` costs next to nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fallow' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    value = getattr(import_module(f"fallow.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, also those that are not loaded yet: notebooks complete what is typed with them."""
    return sorted({*globals(), *__all__})
