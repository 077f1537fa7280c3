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
from fallow.core.reasons import Reason, WithReason
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
UNUSED = (Activity.IDLE, Activity.STUCK)
"""The activities of a GPU that is held and does no work."""


@value
class Finding(WithReason):
    """An activity and why."""

    activity: Activity
    reason: Reason


def judge(gpu: Gpu) -> Finding:
    """Return the activity that this one reading shows, and why."""
    if gpu.trouble is not None:
        return Finding(Activity.UNKNOWN, Reason("trouble", trouble=gpu.trouble))
    if isinstance(gpu.holders, Unknown):
        return Finding(Activity.UNKNOWN, Reason("processes_unknown", why=gpu.holders.why))
    if isinstance(gpu.memory, Unknown):
        return Finding(Activity.UNKNOWN, Reason("memory_unknown", why=gpu.memory.why))
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
        return Finding(Activity.UNKNOWN, Reason("utilization_unknown", why=load.why))
    if load > 0:
        return Finding(Activity.BUSY, Reason("ran_unseen", load=load))
    unseen = unseen_memory_bytes(gpu)
    if isinstance(unseen, Unknown):
        return Finding(Activity.UNKNOWN, Reason("memory_unknown", why=unseen.why))
    if unseen:
        return Finding(Activity.IDLE, Reason("held_unseen", used_bytes=memory.used_bytes))
    return Finding(Activity.FREE, Reason("free"))


def _held(gpu: Gpu, holders: tuple[Holder, ...]) -> Finding:
    work = _evidence_of_work(gpu, holders)
    if work is not None:
        return Finding(Activity.BUSY, work)
    # Quiet must be known over some time: one instant of 0 % says nothing about the last seconds.
    count = len(holders)
    if not isinstance(gpu.recent, Unknown):
        return Finding(Activity.IDLE, Reason("nothing_ran", processes=count, seconds=gpu.recent.seconds))
    if all(not isinstance(holder.utilization, Unknown) for holder in holders):
        return Finding(Activity.IDLE, Reason("no_process_ran", processes=count))
    if not isinstance(gpu.counters, Unknown) and not isinstance(gpu.counters.sm, Unknown):
        return Finding(Activity.IDLE, Reason("no_sm_active", processes=count))
    return Finding(Activity.UNKNOWN, Reason("activity_unknown", processes=count, why=gpu.recent.why))


def _evidence_of_work(gpu: Gpu, holders: tuple[Holder, ...]) -> Reason | None:
    if not isinstance(gpu.recent, Unknown) and gpu.recent.peak > 0:
        recent = gpu.recent
        return Reason("samples", mean=recent.mean, peak=recent.peak, seconds=recent.seconds)
    if not isinstance(gpu.utilization, Unknown) and gpu.utilization > 0:
        return Reason("utilization", load=gpu.utilization)
    for holder in holders:
        if not isinstance(holder.utilization, Unknown) and holder.utilization > 0:
            return Reason("process_ran", pid=holder.pid, load=holder.utilization)
    if not isinstance(gpu.counters, Unknown):
        sm = gpu.counters.sm
        if not isinstance(sm, Unknown) and sm > 0:
            return Reason("sm_active", load=sm)
    return None
