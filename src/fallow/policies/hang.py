"""Decide from one tick whether a GPU that looks fully used does any work.

    WORKS     something shows work, or the card is neither full nor quiet
    QUIET     nothing ran: idle, which is another policy's matter
    HUNG      full, and every signal that can be read shows no work
    UNKNOWN   full, and the signals that would tell are missing

A GPU is full at 95 % utilization on average since the last reading. Some full GPUs, measured on an H200
(docs/benchmarks.md):

                              power   SM activity   tensor     floating point   memory     bus in
    one thread spins          123 W   0.76 %        0          0                0.0005 %   0.1 MB/s
    spins in 128 streams      125 W   24.24 %       0          0                0.0113 %   2.9 GB/s
    32 x 544 threads wait     133 W   24.24 %       0          0                0.0005 %   0.2 MB/s
    graph of one float        124 W   0.31 %        0.0018 %   0.0036 %         0.0005 %   2.6 MB/s
    fp64 SVD, 600 x 600       178 W   14.2 %        0.0007 %   5.1 %            0.0006 %   101 MB/s
    copies from the host      129 W   0             0          0                1.1 %      59 GB/s
    matmul                    690 W   93 %          90 %       0                16 %       2.3 MB/s

So with counters a hang has tensor and floating point at exactly zero, next to no memory traffic, and at least one SM
active all the time: below that ran nothing but copies or many tiny kernels. Occupancy tells nothing then: threads
that wait occupy as much as others. The bus tells little: work that is queued behind them is polled over it. Without
counters the bus must be known and quiet, because copies look like a hang in everything else.
In either case power must not be above rest by more than 5 % of the way to the limit, if it is known.

Kernels that use whole numbers only, hold an SM all the time and stay in the cache look exactly like a hang.
A hang of a GPU that draws far less at rest than in a hang is missed, and never reported wrongly.
"""

from enum import StrEnum

from fallow.core.activity import Activity, judge
from fallow.core.findings import Evidence
from fallow.core.gpu import NEEDS_TWO_LOOKS, Counters, Gpu
from fallow.core.job import own_holders, own_load
from fallow.core.reasons import Reason, WithReason
from fallow.core.unknown import Unknown
from fallow.core.value import value

_FULL_FROM = 0.95
_POWER_MARGIN = 0.05  # of the way from rest to the limit
_DRAM_FROM = 0.001  # polling what is queued behind spins caused 0.00011
_ONE_SM = 0.006  # a GPU has at most some 160 of them
_COPIES_FROM, _MORE_THAN_POLLED_FROM = 1e9, 20e9  # bytes a second
_LITTLE_POWER = 0.4  # of the limit: a hang draws no more


class Look(StrEnum):
    """What one tick shows about a GPU."""

    WORKS = "works"
    QUIET = "quiet"
    HUNG = "hung"
    UNKNOWN = "unknown"


@value
class HangFinding(WithReason):
    """What one tick shows, why, and the readings it used."""

    look: Look
    reason: Reason
    evidence: Evidence = ()


@value
class _Signal:
    """One signal: its name, what it read, and whether it shows work."""

    name: str
    text: str
    works: bool | Unknown


def look_for_hang(gpu: Gpu, pids: frozenset[int] | Unknown, rest_w: float | None) -> HangFinding:
    """Return whether the job with these processes hangs on this GPU, given what the GPU draws at rest."""
    label = gpu.label
    if gpu.trouble is not None:
        return HangFinding(Look.UNKNOWN, Reason("gpu_trouble", gpu=label, trouble=gpu.trouble))
    if isinstance(gpu.recent, Unknown):
        if not isinstance(gpu.counters, Unknown) and _counters_show_work(gpu.counters):
            text = _counters(gpu.counters).text
            return HangFinding(Look.WORKS, Reason("counters_show_work", gpu=label, counters=text))
        return HangFinding(Look.UNKNOWN, Reason("load_unknown", gpu=label, why=gpu.recent.why))
    load = _load_of_the_job(gpu, gpu.recent.mean, pids)
    if isinstance(load, Unknown):
        return HangFinding(Look.UNKNOWN, Reason("load_unknown", gpu=label, why=load.why))
    used = ((f"GPU {label} utilization", f"{load:.0%} in the last {gpu.recent.seconds:.1f} s"),)
    if load == 0:
        return HangFinding(Look.QUIET, Reason("quiet", gpu=label), used)
    if load < _FULL_FROM:
        return HangFinding(Look.WORKS, Reason("not_full", gpu=label, load=load), used)
    power, counters = _power(gpu, rest_w), _counters(gpu.counters)
    bus = _bus(gpu, _COPIES_FROM if isinstance(counters.works, Unknown) else _MORE_THAN_POLLED_FROM)
    signals = (power, counters, bus)
    look, kind, facts = _weigh(*signals)
    evidence = used + tuple((f"GPU {label} {signal.name}", signal.text) for signal in signals)
    return HangFinding(look, Reason(kind, gpu=label, load=load, **facts), evidence)


def hang_at_a_glance(gpu: Gpu) -> Look | None:
    """Return what `look_for_hang` would find for all processes on the GPU, without a reason.

    Quiet is called work here, since neither is a hang. None if the signals must be weighed.
    """
    if gpu.trouble is not None:
        return Look.UNKNOWN
    if isinstance(gpu.recent, Unknown):
        works = not isinstance(gpu.counters, Unknown) and _counters_show_work(gpu.counters)
        return Look.WORKS if works else Look.UNKNOWN
    return Look.WORKS if gpu.recent.mean < _FULL_FROM else None


def is_full(gpu: Gpu) -> bool:
    """Return whether something ran all the time since the last reading."""
    return not isinstance(gpu.recent, Unknown) and gpu.recent.mean >= _FULL_FROM


def counters_would_tell(gpu: Gpu) -> bool:
    """Return whether it looks full and draws little power, so that a second reading with counters decides."""
    return (
        gpu.counters == NEEDS_TWO_LOOKS
        and not isinstance(gpu.recent, Unknown)
        and gpu.recent.peak >= _FULL_FROM
        and not isinstance(gpu.power_w, Unknown)
        and not isinstance(gpu.power_limit_w, Unknown)
        and gpu.power_w <= _LITTLE_POWER * gpu.power_limit_w
    )


def rest_power_w(gpu: Gpu, before_w: float | None) -> float | None:
    """Return what the GPU draws with a context and no work: the lowest power ever seen while held and idle."""
    held = not isinstance(gpu.holders, Unknown) and len(gpu.holders) > 0
    at_rest = held and judge(gpu).activity is Activity.IDLE
    if not at_rest or isinstance(gpu.power_w, Unknown):
        return before_w
    return gpu.power_w if before_w is None else min(before_w, gpu.power_w)


def _load_of_the_job(gpu: Gpu, card: float, pids: frozenset[int] | Unknown) -> float | Unknown:
    """Return the load of the GPU, or the job's share where others use the GPU too.

    Unknown where the driver does not give it: a hang of somebody else is none of this job.
    """
    listed, own = own_holders(gpu, pids), own_load(gpu, pids)
    if isinstance(listed, Unknown) or listed == gpu.holders:
        return card
    return own if isinstance(own, Unknown) else min(own, card)


def _weigh(power: _Signal, counters: _Signal, bus: _Signal) -> tuple[Look, str, dict[str, str]]:
    """Return what the signals show together, with the kind of the reason and its facts."""
    signals = (power, counters, bus)
    for signal in signals:
        if not isinstance(signal.works, Unknown) and signal.works:
            return Look.WORKS, "shows_work", {"signal": signal.name, "reading": signal.text}
    if isinstance(counters.works, Unknown) and isinstance(bus.works, Unknown):
        return Look.UNKNOWN, "bus_unknown", {"why": str(bus.works)}
    if isinstance(power.works, Unknown) and isinstance(counters.works, Unknown):
        return Look.UNKNOWN, "signals_unknown", {"power": str(power.works), "counters": str(counters.works)}
    used = [f"{signal.name} ({signal.text})" for signal in signals if not isinstance(signal.works, Unknown)]
    return Look.HUNG, "shows_no_work", {"signals": " or ".join(used)}


def _power(gpu: Gpu, rest_w: float | None) -> _Signal:
    name, power, limit = "power", gpu.power_w, gpu.power_limit_w
    if isinstance(power, Unknown):
        return _Signal(name, str(power), power)
    if rest_w is None:
        unlearned = Unknown("the card has not been seen at rest")
        return _Signal(name, f"{power:.0f} W; {unlearned.why}", unlearned)
    if isinstance(limit, Unknown):
        return _Signal(name, f"{power:.0f} W, {rest_w:.0f} W at rest; its limit is {limit}", limit)
    works = power > rest_w + _POWER_MARGIN * max(0.0, limit - rest_w)
    return _Signal(name, f"{power:.0f} W, {rest_w:.0f} W at rest, limit {limit:.0f} W", works)


def _counters(counters: Counters | Unknown) -> _Signal:
    name = "hardware counters"
    if isinstance(counters, Unknown):
        return _Signal(name, str(counters), counters)
    readings = (
        ("SM activity", counters.sm),
        ("tensor", counters.tensor),
        ("floating point", counters.floating),
        ("memory", counters.dram),
    )
    text = ", ".join(
        f"{what} {'unknown' if isinstance(value, Unknown) else format(value, '.4%')}" for what, value in readings
    )
    if _counters_show_work(counters) or (not isinstance(counters.sm, Unknown) and counters.sm < _ONE_SM):
        return _Signal(name, text, works=True)
    missing = [value for _, value in readings if isinstance(value, Unknown)]
    return _Signal(name, text, missing[0] if missing else False)


def _counters_show_work(counters: Counters) -> bool:
    return (
        (not isinstance(counters.tensor, Unknown) and counters.tensor > 0)
        or (not isinstance(counters.floating, Unknown) and counters.floating > 0)
        or (not isinstance(counters.dram, Unknown) and counters.dram >= _DRAM_FROM)
    )


def _bus(gpu: Gpu, works_from: float) -> _Signal:
    ways = (("in", gpu.pcie_rx_bytes_per_s), ("out", gpu.pcie_tx_bytes_per_s))
    text = ", ".join(f"{'unknown' if isinstance(rate, Unknown) else _rate(rate)} {way}" for way, rate in ways)
    if any(not isinstance(rate, Unknown) and rate >= works_from for _, rate in ways):
        return _Signal("PCIe bus", text, works=True)
    missing = [rate for _, rate in ways if isinstance(rate, Unknown)]
    return _Signal("PCIe bus", text, missing[0] if missing else False)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.1f} GB/s" if bytes_per_s >= 1e8 else f"{bytes_per_s / 1e6:.1f} MB/s"
