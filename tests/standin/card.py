"""One card of a world: what a test sets, and every reader sees at once."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.standin.layout import SIZES, STRUCTURES

# The metrics that a card of this kind has: load of its parts, memory and bus traffic.
USUAL_METRICS = (*range(1, 14), 20, 21)
_NO_MEMORY_FIGURE = 2**64 - 1

Alone = Callable[[], contextlib.AbstractContextManager[None]]


@dataclasses.dataclass(frozen=True)
class Process:
    """A process on a card; memory None is a figure that the driver does not know."""

    pid: int
    memory_bytes: int | None = None


@dataclasses.dataclass(frozen=True)
class MigInstance:
    """An instance of a split card; what is left empty is made up from card and slot."""

    uuid: str = ""
    name: str = ""
    gpu_instance: int | None = None
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


def _number(field: str) -> property:
    """A plain number of a card, changed in one store."""
    return property(
        lambda card: int(getattr(card.raw, field)), lambda card, value: setattr(card.raw, field, int(value))
    )


def _written(pack: Callable[["Card", Any], Mapping[str, Any]]) -> property:
    """What a test only sets, as the fields that `pack` returns, so that no reader sees half of it."""

    def write(card: "Card", value: Any) -> None:
        fields = pack(card, value)
        with card.alone():
            for name, packed in fields.items():
                setattr(card.raw, name, packed)

    return property(None, write)


def _text(field: str) -> property:
    """A string of a card."""

    def read(card: "Card") -> str:
        raw: bytes = getattr(card.raw, field)
        return raw.decode(errors="surrogateescape")

    return _written(lambda _, value: {field: text(value, SIZES["NAME_SIZE"])}).getter(read)


def _processes(field: str) -> property:
    """A process list of a card."""
    return _written(lambda _, processes: {field: _pack_processes(processes)})


def _rows(kind: str, size: str, values: Sequence[Sequence[Any]]) -> Any:
    """Rows of a structure, each from its first values."""
    if len(values) > SIZES[size]:
        raise ValueError(f"at most {SIZES[size]} of them fit")
    return (STRUCTURES[kind] * SIZES[size])(*(tuple(row) for row in values))


def _pack_processes(processes: Sequence[Process]) -> Any:
    figures = [_NO_MEMORY_FIGURE if each.memory_bytes is None else each.memory_bytes for each in processes]
    rows = [(memory, each.pid) for each, memory in zip(processes, figures, strict=True)]
    return STRUCTURES["process_list"](len(rows), 0, _rows("process", "MAX_PROCESSES", rows))


def _pack_metrics(metrics: Mapping[int, float] | None) -> Any:
    packed = STRUCTURES["metrics"](metrics is not None)
    for metric, value in (metrics or {}).items():
        packed.known[metric] = 1
        packed.value[metric] = value
    return packed


def _pack_samples(_: "Card", samples: Sequence[tuple[int, int]] | None) -> Mapping[str, Any]:
    rows = _rows("sample", "MAX_SAMPLES", samples or ())
    return {"explicit_samples": samples is not None, "sample_count": len(samples or ()), "sample": rows}


def _pack_process_samples(_: "Card", samples: Sequence[tuple[int, ...]]) -> Mapping[str, Any]:
    rows = [(time_us, pid, *done) for pid, time_us, *done in samples]
    packed = _rows("process_sample", "MAX_PROCESSES", rows)
    return {"process_sample_count": len(rows), "process_sample": packed}


def _pack_instances(card: "Card", instances: Sequence[MigInstance | None] | None) -> Mapping[str, Any]:
    given = list(instances or ())
    packed = (STRUCTURES["instance"] * SIZES["MAX_INSTANCES"])()
    for slot, instance in enumerate(given):
        if instance is not None:
            packed[slot] = _pack_instance(card, slot, instance)
    capable = bool(card.mig_capable) or instances is not None
    return {"instance": packed, "mig_slots": len(given), "mig_mode": instances is not None, "mig_capable": capable}


def _pack_instance(card: "Card", slot: int, given: MigInstance) -> Any:
    gi = slot + 1 if given.gpu_instance is None else given.gpu_instance
    name = given.name or f"{card.name} MIG 1g.{round(given.memory_total / 2**30)}gb"
    uuid = given.uuid or f"MIG-{card.uuid[4:12]}-{slot:04x}-4000-9000-{card.uuid[-12:-4]}{gi:04x}"
    return STRUCTURES["instance"](
        present=True,
        gpu_instance=gi,
        memory_total=given.memory_total,
        memory_reserved=given.memory_reserved,
        memory_used=given.memory_used,
        uuid=text(uuid, SIZES["NAME_SIZE"]),
        name=text(name, SIZES["NAME_SIZE"]),
        compute=_pack_processes(given.processes),
        metrics=_pack_metrics(given.gpm),
    )


class Card:
    """A card of a world. Properties may be set at any time, by any process."""

    utilization = _number("utilization")
    memory_utilization = _number("memory_utilization")
    memory_total = _number("memory_total")
    memory_used = _number("memory_used")
    memory_reserved = _number("memory_reserved")
    power_mw = _number("power_mw")
    power_limit_mw = _number("power_limit_mw")
    temperature_c = _number("temperature_c")
    minor = _number("minor")
    performance_state = _number("performance_state")
    throttle_reasons = _number("throttle_reasons")
    pcie_tx_kbps = _number("pcie_tx_kbps")
    pcie_rx_kbps = _number("pcie_rx_kbps")
    mig_capable = _number("mig_capable")

    uuid = _text("uuid")
    name = _text("name")

    compute = _processes("compute")
    graphics = _processes("graphics")
    mps = _processes("mps")

    clocks_mhz = _written(lambda _, clocks: {"clock_mhz": tuple(clocks)})
    """Graphics, streaming multiprocessors, memory, video."""
    compute_capability = _written(lambda _, given: {"capability_major": given[0], "capability_minor": given[1]})
    samples = _written(_pack_samples)
    """Utilization samples as (microseconds since the epoch, per cent).

    None is the steady mode: the last 14 s of samples, all with the current value.
    """
    process_samples = _written(_pack_process_samples)
    """Utilization by process: (pid, microseconds, sm, memory[, encoder, decoder])."""
    gpm = _written(lambda _, metrics: {"metrics": _pack_metrics(metrics)})
    """Performance metrics by number; None is a card without them."""
    mig = _written(_pack_instances)
    """The instances by slot, None for an empty slot; None altogether: not split."""

    def __init__(self, index: int, raw: Any, alone: Alone) -> None:
        """`alone`: a lock under which readers wait, so that none sees half of a string or list."""
        self.index = index
        self.raw = raw
        self.alone = alone
