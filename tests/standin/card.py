"""One card of a world: what a test sets, and every reader sees at once."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.standin import layout

# The metrics that a card of this kind has: load of its parts, memory and bus traffic.
USUAL_METRICS = (*range(1, 14), 20, 21)

Writing = Callable[[Any], contextlib.AbstractContextManager[None]]


@dataclasses.dataclass(frozen=True)
class Process:
    """A process on a card; memory None is a figure that the driver does not know."""

    pid: int
    memory_bytes: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


@dataclasses.dataclass(frozen=True)
class MigInstance:
    """An instance of a split card; what is left empty is made up from card and slot."""

    uuid: str = ""
    name: str = ""
    gpu_instance: int | None = None
    compute_instance: int = 0
    memory_total: int = 10 * 2**30
    memory_used: int = 0
    memory_reserved: int = 0
    processes: Sequence[Process] = ()
    gpm: Mapping[int, float] | None = dataclasses.field(default_factory=lambda: dict.fromkeys(USUAL_METRICS, 0.0))


def text(value: str, size: int) -> bytes:
    """Encode a string for a field of that size, its closing zero included."""
    raw = value.encode(errors="surrogateescape")  # a driver may answer with any bytes
    if len(raw) >= size:
        raise ValueError(f"{value!r} is longer than {size - 1} bytes")
    return raw


def _within(value: int, bits: int) -> int:
    if not 0 <= value < 2**bits:
        raise ValueError(f"{value} does not fit into {bits} bits")
    return value


def _number(field: str, bits: int = 32) -> property:
    """A plain number of a card, changed in one store."""

    def read(card: "Card") -> int:
        return int(getattr(card.raw, field))

    def write(card: "Card", value: int) -> None:
        setattr(card.raw, field, _within(value, bits))

    return property(read, write)


def _text(field: str) -> property:
    """A string of a card, changed so that no reader sees half of it."""

    def read(card: "Card") -> str:
        raw: bytes = getattr(card.raw, field)
        return raw.decode(errors="surrogateescape")

    def write(card: "Card", value: str) -> None:
        raw = text(value, layout.NAME_SIZE)
        with card.writing():
            setattr(card.raw, field, raw)

    return property(read, write)


def _written(write: "Callable[[Card, Any], None]") -> property:
    """What a test only sets, so that no reader sees half of it."""

    def write_alone(card: "Card", value: Any) -> None:
        with card.writing():
            write(card, value)

    return property(None, write_alone)


def _processes(field: str) -> property:
    """A process list of a card."""
    return _written(lambda card, processes: setattr(card.raw, field, _pack_processes(processes)))


def _pack_processes(processes: Sequence[Process]) -> layout.ProcessList:
    if len(processes) > layout.MAX_PROCESSES:
        raise ValueError(f"at most {layout.MAX_PROCESSES} processes fit")
    packed = layout.ProcessList(count=len(processes))
    for entry, process in zip(packed.item, processes, strict=False):
        memory, gi, ci = process.memory_bytes, process.gpu_instance, process.compute_instance
        entry.pid = _within(process.pid, 32)
        entry.memory = layout.NO_MEMORY_FIGURE if memory is None else _within(memory, 64)
        entry.gpu_instance = layout.NO_INSTANCE if gi is None else _within(gi, 32)
        entry.compute_instance = layout.NO_INSTANCE if ci is None else _within(ci, 32)
    return packed


def _pack_metrics(metrics: Mapping[int, float] | None) -> layout.Metrics:
    packed = layout.Metrics(supported=metrics is not None)
    for metric, value in (metrics or {}).items():
        packed.known[metric] = 1
        packed.value[metric] = value
    return packed


def _put_clocks(card: "Card", clocks: Sequence[int]) -> None:
    for i in range(4):
        card.raw.clock_mhz[i] = _within(clocks[i], 32)


def _put_capability(card: "Card", capability: tuple[int, int]) -> None:
    card.raw.capability_major, card.raw.capability_minor = capability


def _put_samples(card: "Card", samples: Sequence[tuple[int, int]] | None) -> None:
    given = samples or ()
    packed = (layout.SampleEntry * layout.MAX_SAMPLES)()
    for entry, (time_us, value) in zip(packed, given, strict=False):
        entry.time_us, entry.value = _within(time_us, 64), _within(value, 32)
    card.raw.explicit_samples = samples is not None
    card.raw.sample_count = len(given)
    card.raw.sample = packed


def _put_process_samples(card: "Card", samples: Sequence[tuple[int, ...]]) -> None:
    packed = (layout.ProcessSampleEntry * layout.MAX_PROCESSES)()
    for entry, sample in zip(packed, samples, strict=False):
        pid, time_us, sm, memory, encoder, decoder = (*sample, 0, 0)[:6]
        entry.pid, entry.time_us = _within(pid, 32), _within(time_us, 64)
        entry.sm, entry.memory, entry.encoder, entry.decoder = sm, memory, encoder, decoder
    card.raw.process_sample_count = len(samples)
    card.raw.process_sample = packed


def _put_metrics(card: "Card", metrics: Mapping[int, float] | None) -> None:
    card.raw.metrics = _pack_metrics(metrics)


def _put_instances(card: "Card", instances: Sequence[MigInstance | None] | None) -> None:
    given = list(instances or ())
    packed = (layout.InstanceEntry * layout.MAX_INSTANCES)()
    for slot, instance in enumerate(given):
        if instance is not None:
            packed[slot] = _pack_instance(card, slot, instance)
    card.raw.instance = packed
    card.raw.mig_slots = len(given)
    card.raw.mig_mode = instances is not None
    if instances is not None:
        card.raw.mig_capable = True


def _pack_instance(card: "Card", slot: int, given: MigInstance) -> layout.InstanceEntry:
    gi = slot + 1 if given.gpu_instance is None else given.gpu_instance
    name = given.name or f"{card.name} MIG 1g.{round(given.memory_total / 2**30)}gb"
    uuid = given.uuid or f"MIG-{card.uuid[4:12]}-{slot:04x}-4000-9000-{card.uuid[-12:-4]}{gi:04x}"
    return layout.InstanceEntry(
        present=True,
        gpu_instance=_within(gi, 32),
        compute_instance=_within(given.compute_instance, 32),
        memory_total=_within(given.memory_total, 64),
        memory_reserved=_within(given.memory_reserved, 64),
        memory_used=_within(given.memory_used, 64),
        uuid=text(uuid, layout.NAME_SIZE),
        name=text(name, layout.NAME_SIZE),
        compute=_pack_processes(given.processes),
        metrics=_pack_metrics(given.gpm),
    )


class Card:
    """A card of a world. Properties may be set at any time, by any process."""

    utilization = _number("utilization")
    memory_utilization = _number("memory_utilization")
    memory_total = _number("memory_total", 64)
    memory_used = _number("memory_used", 64)
    memory_reserved = _number("memory_reserved", 64)
    power_mw = _number("power_mw")
    power_limit_mw = _number("power_limit_mw")
    energy_mj = _number("energy_mj", 64)
    temperature_c = _number("temperature_c")
    minor = _number("minor")
    performance_state = _number("performance_state")
    throttle_reasons = _number("throttle_reasons", 64)
    pcie_tx_kbps = _number("pcie_tx_kbps")
    pcie_rx_kbps = _number("pcie_rx_kbps")
    mig_capable = _number("mig_capable")

    uuid = _text("uuid")
    name = _text("name")

    compute = _processes("compute")
    graphics = _processes("graphics")
    mps = _processes("mps")

    clocks_mhz = _written(_put_clocks)
    """Graphics, streaming multiprocessors, memory, video."""
    compute_capability = _written(_put_capability)
    samples = _written(_put_samples)
    """Utilization samples as (microseconds since the epoch, per cent).

    None is the steady mode: the last 14 s of samples, all with the current value.
    """
    process_samples = _written(_put_process_samples)
    """Utilization by process: (pid, microseconds, sm, memory[, encoder, decoder])."""
    gpm = _written(_put_metrics)
    """Performance metrics by number; None is a card without them."""
    mig = _written(_put_instances)
    """The instances by slot, None for an empty slot; None altogether: not split."""

    def __init__(self, index: int, raw: layout.CardEntry, writing: Writing) -> None:
        self.index = index
        self.raw = raw
        self._writing = writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Change strings or lists of the card: readers wait, and never see half of it."""
        with self._writing(self.raw):
            yield
