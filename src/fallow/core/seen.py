"""A GPU together with what was found of it."""

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Gpu
from fallow.core.promise import Claim
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import fields, value


@value
class SeenGpu(Gpu):
    """A GPU, what it did, since when, and who has claimed it."""

    activity: Activity = Activity.UNKNOWN
    because: str = "not judged"
    for_s: float | None = None
    """Witnessed seconds of this activity; None if nobody was watching."""
    claim: Claim | Unknown | None = NOT_ASKED
    waiting: int = 0
    """Launches that wait in line for it."""
    filler: Claim | None = None
    """Work that yields is on it, in the words of who started it."""


@value
class Sight:
    """All GPUs of one tick, judged."""

    host: str
    simulated: bool
    wall_s: float
    gpus: tuple[SeenGpu, ...]


def seen(
    gpu: Gpu,
    finding: Finding,
    for_s: float | None,
    claim: Claim | Unknown | None,
    waiting: int = 0,
    filler: Claim | None = None,
) -> SeenGpu:
    """The GPU with its finding."""
    facts = {name: getattr(gpu, name) for name in fields(Gpu)}
    return SeenGpu(
        **facts,
        activity=finding.activity,
        because=finding.because,
        for_s=for_s,
        claim=claim,
        waiting=waiting,
        filler=filler,
    )
