"""What is known of a GPU at one moment: frozen values, each of which may be Unknown.

Units are in the names. A ratio is 0..1; only interfaces use per cent.
"""

from collections.abc import Iterable

from fallow.core.owner import Owner
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import fields, value


@value
class Holder:
    """A process that has a context or memory on a GPU."""

    pid: int
    memory_bytes: int | Unknown
    utilization: float | Unknown = NOT_ASKED
    birth: int | Unknown = NOT_ASKED
    user: str | Unknown = NOT_ASKED
    command: str | Unknown = NOT_ASKED
    owner: Owner | Unknown = NOT_ASKED


HOLDER_FACTS = tuple(name for name in fields(Holder) if name not in ("birth", "owner"))
"""What JSON has of a holder, beside its owner."""


@value
class Memory:
    """Memory of a GPU. Up to `floor_bytes` may be in use while no process holds it."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    floor_bytes: int


@value
class Recent:
    """Utilization (0..1) that the driver sampled since the last reading, so that nothing in between is missed."""

    seconds: float
    mean: float
    peak: float


NEEDS_TWO_LOOKS = Unknown("hardware counters need two looks")


@value
class Counters:
    """Hardware counters between two readings (GPM): how much of the GPU worked."""

    sm: float | Unknown
    occupancy: float | Unknown
    tensor: float | Unknown
    dram: float | Unknown
    floating: float | Unknown = NOT_ASKED
    """The floating point unit that did most, without tensor cores."""
    seconds: float = 1.0
    """The time between the two readings: zero over some milliseconds says little."""

    def __str__(self) -> str:
        named: tuple[tuple[str, float | Unknown], ...]
        named = (("SM", self.sm), ("occupancy", self.occupancy), ("tensor", self.tensor), ("DRAM", self.dram))
        if not isinstance(self.floating, Unknown):
            named = (*named, ("floating point", self.floating))
        return ", ".join(f"{name} {'?' if isinstance(part, Unknown) else f'{part:.1%}'}" for name, part in named)


COUNTED = ("sm", "occupancy", "tensor", "dram", "floating")
PLAIN_READINGS = (
    *("uuid", "name", "utilization", "memory_utilization", "temperature_c", "power_w", "power_limit_w"),
    *("sm_clock_mhz", "memory_clock_mhz", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"),
)
"""The readings of a GPU that are single values."""


@value
class MigPlace:
    """Where a MIG instance is: the slot on its card, and the card's UUID."""

    slot: int
    parent_uuid: str | Unknown
    gpu_instance: int | Unknown


@value
class Gpu:
    """One GPU, a card or a MIG instance, as it was at one moment."""

    index: int
    uuid: str | Unknown
    name: str | Unknown
    utilization: float | Unknown
    memory_utilization: float | Unknown
    memory: Memory | Unknown
    holders: tuple[Holder, ...] | Unknown
    temperature_c: int | Unknown
    trouble: str | None = None
    """Why no reading of the GPU can be trusted: it is lost, or does not answer."""
    mig: MigPlace | None = None
    minor: int | Unknown = NOT_ASKED
    recent: Recent | Unknown = NOT_ASKED
    power_w: float | Unknown = NOT_ASKED
    power_limit_w: float | Unknown = NOT_ASKED
    sm_clock_mhz: int | Unknown = NOT_ASKED
    memory_clock_mhz: int | Unknown = NOT_ASKED
    throttled_by: tuple[str, ...] | Unknown = NOT_ASKED
    performance_state: int | Unknown = NOT_ASKED
    """0 is the fastest, 15 the slowest."""
    counters: Counters | Unknown = NOT_ASKED
    pcie_rx_bytes_per_s: float | Unknown = NOT_ASKED
    pcie_tx_bytes_per_s: float | Unknown = NOT_ASKED

    @property
    def label(self) -> str:
        """Return its name for people: `3`, or `3:1` for the MIG instance in slot 1 of card 3."""
        return str(self.index) if self.mig is None else f"{self.index}:{self.mig.slot}"


@value
class Snapshot:
    """All readings of one tick."""

    host: str
    simulated: bool
    at_s: float
    """Monotonic seconds, for differences."""
    wall_s: float
    """Seconds since the epoch, for people."""
    gpus: tuple[Gpu, ...]


def labels_of(gpus: Iterable[Gpu]) -> dict[str, str]:
    """Return the label of each GPU by its UUID; one whose UUID is unknown is left out."""
    return {gpu.uuid: gpu.label for gpu in gpus if isinstance(gpu.uuid, str)}
