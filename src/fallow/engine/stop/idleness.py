"""Tell whether a job is idle, as the daemon has witnessed it. What it has not witnessed is unknown: never a yes.

A job is idle only if the daemon calls each of its GPUs idle, for SETTLING_S or longer. The rules that cover it can
only speak against that: a rule counts every pause of a job, also the short ones of a job that works.
"""

from collections.abc import Sequence

from fallow.core.activity import Activity
from fallow.core.board import Counting
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.job import Job
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.settling import SETTLING_S
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.readers.proc import TICKS_PER_S

_NO_DAEMON = "no `fallow up` runs that could have seen it"


@value
class Idleness:
    """Whether a job is idle, for how long that was witnessed, and why it does not count as idle."""

    for_s: float | None
    """None if it is not idle, or that is not known. Where a rule does not count: how long its GPUs are idle."""
    not_idle: Reason | None = None
    """Why it must not count as idle."""


class Witness:
    """What the daemon has seen."""

    def __init__(
        self, world: World, status: Status | None, counting: Sequence[Counting], trouble: str | None
    ) -> None:
        self._world = world
        self._gpus = {} if status is None else {gpu.uuid: gpu for gpu in status.gpus}
        self._counting = counting
        self._why_blind = (trouble or _NO_DAEMON) if status is None else None

    def idleness(self, job: Job) -> Idleness:
        """Return whether a job is idle on all its GPUs, and no rule that covers it speaks against that."""
        if self._why_blind is not None:
            return _unknown(self._why_blind)
        if job.doubtful:
            return _unknown("it may work on a GPU that cannot be read")
        newcomer = self._newcomer(job)
        if newcomer is not None:
            return _unknown(f"the daemon has not seen pid {newcomer} on its GPUs yet")
        on_gpus = self._on_gpus(job)
        if on_gpus.for_s is None:
            return on_gpus
        by_rules = [each for each in self._counting if self._is_about(each, job)]
        uncounted = {each.rule: why for each in by_rules if (why := _why_uncounted(each)) is not None}
        for each in by_rules:  # a condition may speak against one of them
            if each.for_s < SETTLING_S and each.rule not in uncounted:
                return Idleness(None, Reason("not_idle", found=_what_a_rule_counts(each)))
        for rule, why in uncounted.items():
            return Idleness(on_gpus.for_s, Reason("not_counted", rule=rule, why=why))
        return Idleness(min([on_gpus.for_s, *(each.for_s for each in by_rules)]))

    def _on_gpus(self, job: Job) -> Idleness:
        found = [self._on_gpu(self._gpus.get(uuid), job) for uuid in job.uuids]
        doubts = [each for each in found if each.not_idle is not None]
        busy = next((each for each in doubts if each.not_idle is not None and each.not_idle.kind == "not_idle"), None)
        if busy is not None:
            return busy
        if doubts or not found:
            return doubts[0] if doubts else _unknown("it holds no GPU")
        return Idleness(min(each.for_s or 0.0 for each in found))

    def _newcomer(self, job: Job) -> int | None:
        """Return a process of the job that came after the daemon looked: others may have been idle there before.

        Where the driver lists nobody, it does not say who is new.
        """
        gpus = [self._gpus[uuid] for uuid in job.uuids if uuid in self._gpus]
        listed = {each.pid for gpu in gpus if not isinstance(gpu.holders, Unknown) for each in gpu.holders}
        claimed = {gpu.claim.pid for gpu in gpus if isinstance(gpu.claim, Claim)}
        return next((each.pid for each in job.members if listed and each.pid not in listed | claimed), None)

    @staticmethod
    def _is_about(counting: Counting, job: Job) -> bool:
        return counting.fault == "idle" and set(job.process_keys) <= set(counting.processes)

    def _on_gpu(self, gpu: GpuStatus | None, job: Job) -> Idleness:
        if gpu is None:
            return _unknown("the daemon does not see one of its GPUs")
        if gpu.activity in (Activity.BUSY, Activity.STUCK):
            return Idleness(None, Reason("not_idle", found=f"GPU {gpu.label} is {gpu.activity}: {gpu.because}"))
        if gpu.activity is not Activity.IDLE or gpu.for_s is None:
            return _unknown(f"the daemon calls GPU {gpu.label} {gpu.activity}")
        lasted_s = min(gpu.for_s, self._age_s(job))
        if lasted_s < SETTLING_S:
            return _unknown(f"it was seen on GPU {gpu.label} for less than {SETTLING_S:.0f} s")
        return Idleness(lasted_s)

    def _age_s(self, job: Job) -> float:
        """Return the age of its youngest process: what it did not live through says nothing about it."""
        up_s = self._world.proc.uptime_s()
        return 0.0 if up_s is None else up_s - max(each.birth for each in job.members) / TICKS_PER_S


def _why_uncounted(counting: Counting) -> str | None:
    """Return why a rule does not count for how long a job is idle; None if it does."""
    if counting.left_alone is not None or counting.paused is not None:
        return counting.left_alone or counting.paused
    if counting.begins_in_s > 0:
        return f"it is new, and nothing counts for another {duration_for_people(counting.begins_in_s)}"
    return None


def _what_a_rule_counts(counting: Counting) -> str:
    if counting.for_s <= 0:
        return f"the rule {counting.rule} does not count it as idle"
    return f"the rule {counting.rule} counts it as idle for {duration_for_people(counting.for_s)} only"


def _unknown(why: str) -> Idleness:
    return Idleness(None, Reason("idleness_unknown", why=why))


def witness_of(world: World) -> Witness:
    """Return what the daemon has seen, if one runs."""
    daemon = world.daemon(lambda _: None)
    status = daemon.status()
    rules = None if status is None else daemon.rules_on([str(gpu.uuid) for gpu in status.gpus], None)
    counting = [each for each in rules or () if isinstance(each, Counting)]
    trouble = None if daemon.trouble is None else f"the daemon could not be asked: {daemon.trouble}"
    return Witness(world, status, counting, trouble)
