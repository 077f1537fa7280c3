"""Render the daemon's board as Prometheus metrics: base units, and no sample where a reading is unknown."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from fallow.core.activity import Activity
from fallow.core.board import Board, Histogram
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, load_of
from fallow.core.interval import Card
from fallow.core.owner import OwnerKind
from fallow.core.unknown import Unknown
from fallow.core.version import __version__
from fallow.interfaces.render.cluster_metrics import cluster_counters, cluster_samples
from fallow.policies.guard import Phase

_CARD = ("gpu", "uuid")
_PHASES = ("quiet", "filled", "yielding", "backoff")
_MOST_HELD = 500
_NUMBER = re.compile(r"\d+")


def exposed(board: Board | None, streams: int, accept: str) -> tuple[bytes, str]:
    """Return the metrics of `/metrics` and their content type: OpenMetrics if the client accepts it."""
    encode, kind = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(board, streams))
    return encode(registry), kind


class _Collector(Collector):
    def __init__(self, board: Board | None, streams: int) -> None:
        self._board = board
        self._streams = streams

    def collect(self) -> Iterable[Metric]:
        """Yield all metric families; those of the board only once there is one."""
        board = self._board
        yield gauge("fallow_up", "Whether the GPUs have been looked at.", [((), float(board is not None))])
        yield gauge("fallow_event_streams", "Pages that are open and watch.", [((), float(self._streams))])
        if board is not None:
            yield from _machine(board)
            yield from _cards(board)
            yield from _held(board)
            yield _parked(board)
            yield from _counts(board)
            yield from _fillers(board)
            if board.cluster is not None:
                yield from (gauge(*family) for family in cluster_samples(board.cluster))
                yield from (_counter(*family) for family in cluster_counters(board.cluster))


def gauge(
    name: str,
    help_text: str,
    samples: Iterable[tuple[tuple[str, ...], float | None]],
    labels: tuple[str, ...] = (),
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """Return a family of gauges, or of counters; a value of None is left out."""
    family = kind(name, help_text, labels=labels)
    for words, number in samples:
        if number is not None:
            family.add_metric(words, number)
    return family


_counter = partial(gauge, kind=CounterMetricFamily)


def _machine(board: Board) -> Iterator[Metric]:
    status = board.status
    about = {
        "version": __version__,
        "host": status.host,
        "simulated": str(status.simulated).lower(),
        "dry_run": str(board.is_dry_run).lower(),
    }
    yield InfoMetricFamily("fallow", "Which fallow this is, and of which machine.", value=about)
    yield gauge("fallow_start_time_seconds", "When it began, since the epoch.", [((), board.started_wall_s)])
    yield gauge("fallow_last_look_time_seconds", "When it last looked, since the epoch.", [((), status.wall_s)])
    yield gauge(
        "fallow_gpus_available", "GPUs that are available now: free or filled.", [((), float(status.available))]
    )
    yield gauge("fallow_protections", "Protections that last.", [((), float(len(board.protections)))])
    phases = [((guard.name, phase.value), float(guard.phase == phase)) for guard in board.guards for phase in Phase]
    what = "1 for the phase that a guard is in, 0 for the rest."
    yield gauge("fallow_guard_phase", what, phases, ("guard", "phase"))


def _cards(board: Board) -> Iterator[Metric]:
    gpus = [(_names(gpu), gpu) for gpu in board.status.gpus]

    def of_each(name: str, help_text: str, read: Callable[[GpuStatus], float | Unknown | None]) -> Metric:
        values = ((names, _known(read(gpu))) for names, gpu in gpus)
        return gauge(name, help_text, values, _CARD)

    models = [((*names, str(gpu.name)), 1.0) for names, gpu in gpus if not isinstance(gpu.name, Unknown)]
    yield gauge("fallow_gpu_info", "1 for each GPU, with its name.", models, (*_CARD, "name"))
    does = [
        ((*names, activity.value), float(gpu.activity is activity)) for names, gpu in gpus for activity in Activity
    ]
    yield gauge("fallow_gpu_activity", "1 for what the GPU does, 0 for the rest.", does, (*_CARD, "activity"))
    yield of_each("fallow_gpu_activity_duration_seconds", "For how long it has been seen so.", lambda gpu: gpu.for_s)
    yield of_each("fallow_gpu_utilization_ratio", "Share of the time in which something ran.", load_of)
    yield of_each("fallow_gpu_memory_used_bytes", "Memory in use.", lambda gpu: _memory(gpu, "used_bytes"))
    yield of_each("fallow_gpu_memory_total_bytes", "Memory that it has.", lambda gpu: _memory(gpu, "total_bytes"))
    yield of_each("fallow_gpu_power_watts", "Power that it draws.", lambda gpu: gpu.power_w)
    yield of_each("fallow_gpu_power_limit_watts", "Power that it may draw.", lambda gpu: gpu.power_limit_w)
    energy = ((names, board.counts.energy_j.get(str(gpu.uuid))) for names, gpu in gpus)
    yield _counter("fallow_gpu_energy_joules", "Energy that it drew, by its power.", energy, _CARD)
    yield of_each("fallow_gpu_temperature_celsius", "Its temperature.", lambda gpu: gpu.temperature_c)
    yield of_each("fallow_gpu_holders", "Processes that hold it.", _holders)
    yield of_each("fallow_gpu_claimed", "Whether somebody has claimed it.", _claimed)
    yield of_each("fallow_gpu_waiting_launches", "Launches that wait in line for it.", lambda gpu: gpu.waiting)
    prices = [((*_names(gpu), board.prices.currency), _known(_price(board, gpu))) for _, gpu in gpus]
    yield gauge("fallow_gpu_price_per_hour", "What an hour of it costs.", prices, (*_CARD, "currency"))


def _parked(board: Board) -> Metric:
    """Return how much of each GPU the parked jobs of each user held."""
    labels = {gpu.uuid: gpu.label for gpu in board.status.gpus}
    held: dict[tuple[str, ...], float] = {}
    for job in board.status.parked[:_MOST_HELD]:
        for uuid, size in job.gpus:
            key = (labels.get(uuid, ""), uuid, job.user)
            held[key] = held.get(key, 0.0) + size
    what = "GPU memory that parked jobs held, and that is off the GPU now."
    return gauge("fallow_parked_bytes", what, held.items(), (*_CARD, "user"))


def _held(board: Board) -> Iterator[Metric]:
    """Yield what each user and owner hold: the first 500 by name, because users choose the names."""
    memory: dict[tuple[str, ...], float] = {}
    load: dict[tuple[str, ...], float] = {}
    idle: dict[tuple[str, ...], float | None] = {}
    for gpu in board.status.gpus:
        for holder in () if isinstance(gpu.holders, Unknown) else gpu.holders:
            key = (*_names(gpu), *_owner_names(holder))
            idle[key] = {Activity.IDLE: gpu.for_s, Activity.UNKNOWN: None}.get(gpu.activity, 0.0)
            for sums, read in ((memory, holder.memory_bytes), (load, holder.utilization)):
                if not isinstance(read, Unknown):
                    sums[key] = sums.get(key, 0.0) + read
    first = sorted(idle)[:_MOST_HELD]

    def of_each(name: str, help_text: str, values: Mapping[tuple[str, ...], float | None]) -> Metric:
        told = ((key, values.get(key)) for key in first)
        return gauge(name, help_text, told, (*_CARD, "user", "owner_kind", "owner"))

    yield of_each("fallow_holder_memory_bytes", "Memory of the GPU that they hold.", memory)
    yield of_each("fallow_holder_utilization_ratio", "Share of the time in which something of theirs ran.", load)
    yield of_each("fallow_holder_idle_seconds", "For how long they hold an idle GPU.", idle)


def _owner_names(holder: Holder) -> tuple[str, str, str]:
    """Return the user, and the kind and name of the owner; of a notebook only that it is one."""
    user = "" if isinstance(holder.user, Unknown) else holder.user
    if isinstance(holder.owner, Unknown):
        return user, "unknown", ""
    shown = holder.owner.kind is not OwnerKind.NOTEBOOK and holder.owner.is_lasting
    return user, holder.owner.kind, holder.owner.short_name if shown else ""


def _counts(board: Board) -> Iterator[Metric]:
    labels = {gpu.uuid: gpu.label for gpu in board.status.gpus}
    spent = [
        ((labels.get(uuid, ""), uuid, activity, user), seconds)
        for (uuid, activity, user), seconds in board.counts.activity_s.items()
    ]
    what = "Witnessed seconds of each activity, by the user who held the GPU."
    yield _counter("fallow_activity_seconds", what, spent, (*_CARD, "activity", "user"))
    actions = board.counts.actions.items()
    yield _counter("fallow_actions", "What was done, and what came of it.", actions, ("action", "outcome"))
    reasons: dict[tuple[str, ...], float] = {}
    for (reading, why), ticks in board.counts.unknowns.items():
        # Numbers in a reason, such as pids, would make a new series each.
        words = (reading, _NUMBER.sub("N", why))
        reasons[words] = reasons.get(words, 0.0) + ticks
    what = "Ticks at which a reading was not known, by why."
    yield _counter("fallow_unknown_readings", what, reasons.items(), ("reading", "reason"))


def _fillers(board: Board) -> Iterator[Metric]:
    phases: dict[tuple[str, ...], float] = {}
    for view in board.fillers:
        for phase in _PHASES:
            words = (view.name, phase)
            phases[words] = phases.get(words, 0.0) + float(view.phase == phase)
    what = "Places of a filler that are in this phase."
    yield gauge("fallow_filler_places", what, phases.items(), ("filler", "phase"))
    family = HistogramMetricFamily("fallow_yield_duration_seconds", "How long yields took.", labels=("filler",))
    for name, histogram in board.counts.yields.items():
        family.add_metric((name,), _buckets(histogram), histogram.sum_s)
    yield family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = zip(histogram.bounds_s, histogram.counts, strict=True)
    return [*((str(bound), float(count)) for bound, count in bounds), ("+Inf", float(histogram.total))]


def _names(gpu: GpuStatus) -> tuple[str, str]:
    return gpu.label, "" if isinstance(gpu.uuid, Unknown) else gpu.uuid


def _known(number: float | Unknown | None) -> float | None:
    return None if number is None or isinstance(number, Unknown) else float(number)


def _claimed(gpu: GpuStatus) -> float | Unknown:
    return gpu.claim if isinstance(gpu.claim, Unknown) else float(gpu.claim is not None)


def _price(board: Board, gpu: GpuStatus) -> float | Unknown:
    """Return what an hour of the GPU costs by the config."""
    uuid, name = ("?" if isinstance(word, Unknown) else word for word in (gpu.uuid, gpu.name))
    return board.prices.of(Card(uuid, gpu.label, name))


def _memory(gpu: GpuStatus, field: str) -> float | Unknown:
    return gpu.memory if isinstance(gpu.memory, Unknown) else float(getattr(gpu.memory, field))


def _holders(gpu: GpuStatus) -> float | Unknown:
    return gpu.holders if isinstance(gpu.holders, Unknown) else float(len(gpu.holders))
