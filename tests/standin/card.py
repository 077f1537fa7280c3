"""One card of a world: what a test sets, and every reader sees at once."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

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
    gpu_slices: int = 1
    compute_slices: int = 1
    multiprocessors: int = 16
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


class _Number:
    """A plain number of a card, changed in one store."""

    def __init__(self, field: str, bits: int = 32) -> None:
        self._field = field
        self._bits = bits

    @overload
    def __get__(self, card: None, owner: type) -> "_Number": ...

    @overload
    def __get__(self, card: "Card", owner: type) -> int: ...

    def __get__(self, card: "Card | None", owner: type) -> "int | _Number":
        if card is None:
            return self
        return int(getattr(card.raw, self._field))

    def __set__(self, card: "Card", value: int) -> None:
        setattr(card.raw, self._field, _within(value, self._bits))


class _Text:
    """A string of a card, changed so that no reader sees half of it."""

    def __init__(self, field: str, size: int = layout.NAME_SIZE) -> None:
        self._field = field
        self._size = size

    @overload
    def __get__(self, card: None, owner: type) -> "_Text": ...

    @overload
    def __get__(self, card: "Card", owner: type) -> str: ...

    def __get__(self, card: "Card | None", owner: type) -> "str | _Text":
        if card is None:
            return self
        raw: bytes = getattr(card.raw, self._field)
        return raw.decode(errors="surrogateescape")

    def __set__(self, card: "Card", value: str) -> None:
        raw = text(value, self._size)
        with card.writing():
            setattr(card.raw, self._field, raw)


class _Processes:
    """A process list of a card."""

    def __init__(self, field: str) -> None:
        self._field = field

    @overload
    def __get__(self, card: None, owner: type) -> "_Processes": ...

    @overload
    def __get__(self, card: "Card", owner: type) -> list[Process]: ...

    def __get__(self, card: "Card | None", owner: type) -> "list[Process] | _Processes":
        if card is None:
            return self
        return _unpack_processes(getattr(card.raw, self._field))

    def __set__(self, card: "Card", processes: Sequence[Process]) -> None:
        packed = _pack_processes(processes)
        with card.writing():
            setattr(card.raw, self._field, packed)


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


def _unpack_processes(packed: layout.ProcessList) -> list[Process]:
    return [
        Process(
            pid=entry.pid,
            memory_bytes=None if entry.memory == layout.NO_MEMORY_FIGURE else entry.memory,
            gpu_instance=_instance_number(entry.gpu_instance),
            compute_instance=_instance_number(entry.compute_instance),
        )
        for entry in packed.item[: packed.count]
    ]


def _instance_number(value: int) -> int | None:
    return None if value == layout.NO_INSTANCE else value


def _pack_metrics(metrics: Mapping[int, float] | None) -> layout.Metrics:
    packed = layout.Metrics(supported=metrics is not None)
    for metric, value in (metrics or {}).items():
        packed.known[metric] = 1
        packed.value[metric] = value
    return packed


def _unpack_metrics(packed: layout.Metrics) -> dict[int, float] | None:
    if not packed.supported:
        return None
    return {i: packed.value[i] for i in range(layout.MAX_METRICS) if packed.known[i]}


class Card:
    """A card of a world. Properties may be read and set at any time, by any process."""

    utilization = _Number("utilization")
    memory_utilization = _Number("memory_utilization")
    encoder_utilization = _Number("encoder_utilization")
    decoder_utilization = _Number("decoder_utilization")
    memory_total = _Number("memory_total", 64)
    memory_used = _Number("memory_used", 64)
    memory_reserved = _Number("memory_reserved", 64)
    power_mw = _Number("power_mw")
    power_limit_mw = _Number("power_limit_mw")
    power_default_mw = _Number("power_default_mw")
    power_min_mw = _Number("power_min_mw")
    power_max_mw = _Number("power_max_mw")
    energy_mj = _Number("energy_mj", 64)
    temperature_c = _Number("temperature_c")
    minor = _Number("minor")
    performance_state = _Number("performance_state")
    throttle_reasons = _Number("throttle_reasons", 64)
    pcie_tx_kbps = _Number("pcie_tx_kbps")
    pcie_rx_kbps = _Number("pcie_rx_kbps")
    pcie_generation = _Number("pcie_generation")
    pcie_width = _Number("pcie_width")
    compute_mode = _Number("compute_mode")
    persistence_mode = _Number("persistence_mode")
    numa_node = _Number("numa_node")
    mig_pending = _Number("mig_pending")

    uuid = _Text("uuid")
    name = _Text("name")
    serial = _Text("serial", 32)
    pci_bus_id = _Text("bus_id", 32)

    compute = _Processes("compute")
    graphics = _Processes("graphics")
    mps = _Processes("mps")

    def __init__(self, index: int, raw: layout.CardEntry, writing: Writing) -> None:
        self.index = index
        self.raw = raw
        self._writing = writing

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Change strings or lists of the card: readers wait, and never see half of it."""
        with self._writing(self.raw):
            yield

    @property
    def fan_speed(self) -> int | None:
        """Per cent; None is a card without a fan."""
        speed: int = self.raw.fan_speed
        return None if speed == layout.NO_READING else speed

    @fan_speed.setter
    def fan_speed(self, speed: int | None) -> None:
        self.raw.fan_speed = layout.NO_READING if speed is None else _within(speed, 32)

    @property
    def clocks_mhz(self) -> tuple[int, ...]:
        """Graphics, streaming multiprocessors, memory, video."""
        return tuple(self.raw.clock_mhz)

    @clocks_mhz.setter
    def clocks_mhz(self, clocks: Sequence[int]) -> None:
        for i in range(4):
            self.raw.clock_mhz[i] = _within(clocks[i], 32)

    @property
    def max_clocks_mhz(self) -> tuple[int, ...]:
        """The same four at their highest."""
        return tuple(self.raw.max_clock_mhz)

    @max_clocks_mhz.setter
    def max_clocks_mhz(self, clocks: Sequence[int]) -> None:
        for i in range(4):
            self.raw.max_clock_mhz[i] = _within(clocks[i], 32)

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor number."""
        return self.raw.capability_major, self.raw.capability_minor

    @compute_capability.setter
    def compute_capability(self, capability: tuple[int, int]) -> None:
        self.raw.capability_major, self.raw.capability_minor = capability

    @property
    def cpu_affinity(self) -> int:
        """The processors near the card, as a bit mask."""
        return sum(word << (64 * i) for i, word in enumerate(self.raw.cpu_affinity))

    @cpu_affinity.setter
    def cpu_affinity(self, mask: int) -> None:
        for i in range(layout.MAX_CPU_WORDS):
            self.raw.cpu_affinity[i] = mask >> (64 * i) & 0xFFFFFFFFFFFFFFFF

    @property
    def samples(self) -> list[tuple[int, int]] | None:
        """Utilization samples as (microseconds since the epoch, per cent).

        None is the steady mode: the last 14 s of samples, all with the current value.
        """
        if not self.raw.explicit_samples:
            return None
        return [(s.time_us, s.value) for s in self.raw.sample[: self.raw.sample_count]]

    @samples.setter
    def samples(self, samples: Sequence[tuple[int, int]] | None) -> None:
        given = samples or ()
        if len(given) > layout.MAX_SAMPLES:
            raise ValueError(f"at most {layout.MAX_SAMPLES} samples fit")
        packed = (layout.SampleEntry * layout.MAX_SAMPLES)()
        for entry, (time_us, value) in zip(packed, given, strict=False):
            entry.time_us, entry.value = _within(time_us, 64), _within(value, 32)
        with self.writing():
            self.raw.explicit_samples = samples is not None
            self.raw.sample_count = len(given)
            self.raw.sample = packed

    @property
    def process_samples(self) -> list[tuple[int, ...]]:
        """Utilization by process: (pid, microseconds, sm, memory[, encoder, decoder])."""
        return [
            (s.pid, s.time_us, s.sm, s.memory, s.encoder, s.decoder)
            for s in self.raw.process_sample[: self.raw.process_sample_count]
        ]

    @process_samples.setter
    def process_samples(self, samples: Sequence[tuple[int, ...]]) -> None:
        if len(samples) > layout.MAX_PROCESSES:
            raise ValueError(f"at most {layout.MAX_PROCESSES} samples fit")
        packed = (layout.ProcessSampleEntry * layout.MAX_PROCESSES)()
        for entry, sample in zip(packed, samples, strict=False):
            pid, time_us, sm, memory, encoder, decoder = (*sample, 0, 0)[:6]
            entry.pid, entry.time_us = _within(pid, 32), _within(time_us, 64)
            entry.sm, entry.memory, entry.encoder, entry.decoder = sm, memory, encoder, decoder
        with self.writing():
            self.raw.process_sample_count = len(samples)
            self.raw.process_sample = packed

    @property
    def gpm(self) -> dict[int, float] | None:
        """Performance metrics by number; None is a card without them."""
        return _unpack_metrics(self.raw.metrics)

    @gpm.setter
    def gpm(self, metrics: Mapping[int, float] | None) -> None:
        packed = _pack_metrics(metrics)
        with self.writing():
            self.raw.metrics = packed

    @property
    def mig_capable(self) -> bool:
        """Whether the card could be split at all."""
        return bool(self.raw.mig_capable)

    @mig_capable.setter
    def mig_capable(self, capable: bool) -> None:
        self.raw.mig_capable = capable

    @property
    def mig(self) -> list[MigInstance | None] | None:
        """The instances by slot, None for an empty slot; None altogether: not split."""
        if not self.raw.mig_mode:
            return None
        slots = self.raw.instance[: self.raw.mig_slots]
        return [_unpack_instance(entry) if entry.present else None for entry in slots]

    @mig.setter
    def mig(self, instances: Sequence[MigInstance | None] | None) -> None:
        given = list(instances or ())
        if len(given) > layout.MAX_INSTANCES:
            raise ValueError(f"at most {layout.MAX_INSTANCES} instances fit")
        packed = (layout.InstanceEntry * layout.MAX_INSTANCES)()
        for slot, instance in enumerate(given):
            if instance is not None:
                packed[slot] = self._pack_instance(slot, instance)
        with self.writing():
            self.raw.instance = packed
            self.raw.mig_slots = len(given)
            self.raw.mig_mode = self.raw.mig_pending = instances is not None
            if instances is not None:
                self.raw.mig_capable = True

    def _pack_instance(self, slot: int, given: MigInstance) -> layout.InstanceEntry:
        gi = slot + 1 if given.gpu_instance is None else given.gpu_instance
        profile = f"{given.gpu_slices}g.{round(given.memory_total / 2**30)}gb"
        name = given.name or f"{self.name} MIG {profile}"
        uuid = given.uuid or f"MIG-{self.uuid[4:12]}-{slot:04x}-4000-9000-{self.uuid[-12:-4]}{gi:04x}"
        return layout.InstanceEntry(
            present=True,
            gpu_instance=_within(gi, 32),
            compute_instance=_within(given.compute_instance, 32),
            multiprocessors=given.multiprocessors,
            copy_engines=1,
            decoders=1,
            gpu_slices=given.gpu_slices,
            compute_slices=given.compute_slices,
            memory_total=_within(given.memory_total, 64),
            memory_reserved=_within(given.memory_reserved, 64),
            memory_used=_within(given.memory_used, 64),
            uuid=text(uuid, layout.NAME_SIZE),
            name=text(name, layout.NAME_SIZE),
            compute=_pack_processes(given.processes),
            metrics=_pack_metrics(given.gpm),
        )


def _unpack_instance(entry: layout.InstanceEntry) -> MigInstance:
    return MigInstance(
        uuid=entry.uuid.decode(),
        name=entry.name.decode(),
        gpu_instance=entry.gpu_instance,
        compute_instance=entry.compute_instance,
        memory_total=entry.memory_total,
        memory_used=entry.memory_used,
        memory_reserved=entry.memory_reserved,
        gpu_slices=entry.gpu_slices,
        compute_slices=entry.compute_slices,
        multiprocessors=entry.multiprocessors,
        processes=_unpack_processes(entry.compute),
        gpm=_unpack_metrics(entry.metrics),
    )
