"""Judge what a GPU did: the one place where readings become an activity.

    UNKNOWN   the GPU has failed, or a reading that the answer needs is missing
    FREE      no holder, no memory beyond the floor, nothing runs now
    FILLED    only fillers are on it, which leave when needed; `standing` decides it
    BUSY      something ran: a sample, a process or a counter since the last reading says so
    IDLE      held, and everything that was read says that nothing ran
    STUCK     looks busy and does nothing; decided over a window of time, never by one reading

The order matters: failures first, then evidence of work; a GPU is idle only if all that this needs is known.
"""

from enum import StrEnum

from fallow.core.gpu import Gpu, Holder, Memory
from fallow.core.units import bytes_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import value

A_STRETCH_S = 0.9
"""How long counters must have counted to say that nothing runs; a little less than the second between readings."""


class Activity(StrEnum):
    """What a GPU did since the last reading."""

    FREE = "free"
    FILLED = "filled"
    BUSY = "busy"
    IDLE = "idle"
    STUCK = "stuck"
    UNKNOWN = "unknown"


AVAILABLE = (Activity.FREE, Activity.FILLED)
"""The activities of a GPU that can be taken now."""


@value
class Finding:
    """An activity and the sentence that says why."""

    activity: Activity
    because: str


def judge(gpu: Gpu) -> Finding:
    """Return the activity that this one reading shows, and why."""
    if gpu.trouble is not None:
        return Finding(Activity.UNKNOWN, gpu.trouble)
    if isinstance(gpu.holders, Unknown):
        return Finding(Activity.UNKNOWN, f"its processes are {gpu.holders}")
    if isinstance(gpu.memory, Unknown):
        return Finding(Activity.UNKNOWN, f"its memory is {gpu.memory}")
    if gpu.holders:
        return _held(gpu, gpu.holders)
    return _held_by_nobody_visible(gpu, gpu.memory)


def unseen_memory_bytes(gpu: Gpu) -> int | Unknown:
    """Return the memory that no visible holder accounts for, above what an empty GPU uses; 0 if none."""
    if isinstance(gpu.memory, Unknown):
        return gpu.memory
    if isinstance(gpu.holders, Unknown):
        return gpu.holders
    listed = 0
    for holder in gpu.holders:
        if isinstance(holder.memory_bytes, Unknown):
            return Unknown(f"the memory of pid {holder.pid} is {holder.memory_bytes}")
        listed += holder.memory_bytes
    rest = gpu.memory.used_bytes - listed
    return rest if rest > gpu.memory.floor_bytes else 0


def load_now(gpu: Gpu) -> float | Unknown:
    """Return how much ran, to compare it with a limit.

    A GPU that is held is judged by the last seconds: one instant reads 0 for a job that works 5 % of
    each second, so without samples, or counters over some time, it is not known. If no holder is left, old
    samples are of one that has gone.
    """
    if isinstance(gpu.utilization, Unknown):
        return _idle_instance_has_no_load(gpu)
    if not isinstance(gpu.holders, Unknown) and not gpu.holders:
        return gpu.utilization
    if not isinstance(gpu.recent, Unknown):
        return max(gpu.utilization, gpu.recent.mean)
    counters = gpu.counters
    if isinstance(counters, Unknown) or isinstance(counters.sm, Unknown):
        return gpu.recent
    if counters.seconds < A_STRETCH_S:
        return Unknown(f"counted for {counters.seconds:.3f} s only")
    return max(gpu.utilization, counters.sm)


def _idle_instance_has_no_load(gpu: Gpu) -> float | Unknown:
    """Return 0 for a MIG instance without holders: the driver has no utilization of instances."""
    nobody = not isinstance(gpu.holders, Unknown) and not gpu.holders
    if gpu.mig is not None and gpu.trouble is None and nobody and unseen_memory_bytes(gpu) == 0:
        return 0.0
    return gpu.utilization


def _held_by_nobody_visible(gpu: Gpu, memory: Memory) -> Finding:
    load = load_now(gpu)
    if isinstance(load, Unknown):
        return Finding(Activity.UNKNOWN, f"its utilization is {load}")
    if load > 0:
        return Finding(Activity.BUSY, f"{load:.0%} utilization by no visible process")
    unseen = unseen_memory_bytes(gpu)
    if isinstance(unseen, Unknown):
        return Finding(Activity.UNKNOWN, f"its memory is {unseen}")
    if unseen:
        return Finding(
            Activity.IDLE, f"{bytes_for_people(memory.used_bytes)} held by no visible process, nothing runs"
        )
    return Finding(Activity.FREE, "nobody holds it")


def _held(gpu: Gpu, holders: tuple[Holder, ...]) -> Finding:
    work = _evidence_of_work(gpu, holders)
    if work is not None:
        return Finding(Activity.BUSY, work)
    # Quiet must be known over some time: one instant of 0 % says nothing about the last seconds.
    who = "1 process" if len(holders) == 1 else f"{len(holders)} processes"
    if not isinstance(gpu.recent, Unknown):
        return Finding(Activity.IDLE, f"held by {who}, nothing ran in the last {gpu.recent.seconds:.0f} s")
    if all(not isinstance(holder.utilization, Unknown) for holder in holders):
        return Finding(Activity.IDLE, f"held by {who}, none of which ran anything")
    if not isinstance(gpu.counters, Unknown) and not isinstance(gpu.counters.sm, Unknown):
        return Finding(Activity.IDLE, f"held by {who}, no multiprocessor was active")
    return Finding(Activity.UNKNOWN, f"held by {who}; whether anything ran is {gpu.recent}")


def _evidence_of_work(gpu: Gpu, holders: tuple[Holder, ...]) -> str | None:
    if not isinstance(gpu.recent, Unknown) and gpu.recent.peak > 0:
        recent = gpu.recent
        return f"{recent.mean:.0%} on average, {recent.peak:.0%} at most in the last {recent.seconds:.0f} s"
    if not isinstance(gpu.utilization, Unknown) and gpu.utilization > 0:
        return f"{gpu.utilization:.0%} utilization now"
    for holder in holders:
        if not isinstance(holder.utilization, Unknown) and holder.utilization > 0:
            return f"pid {holder.pid} ran {holder.utilization:.0%} of the time"
    if not isinstance(gpu.counters, Unknown):
        sm = gpu.counters.sm
        if not isinstance(sm, Unknown) and sm > 0:
            return f"{sm:.1%} of its multiprocessors were active"
    return None
