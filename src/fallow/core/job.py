"""A job, the GPUs that it holds, and what it did on them since the last reading.

    BUSY      it worked on one of them, at least
    UNKNOWN   it is not known to have worked, and of one of them it is not known that it did not
    IDLE      it is known of each of them that it did less than the threshold, or held nothing there

On each GPU the job is judged by its own processes, where the driver says what each of them ran; else by the whole
GPU, so that in doubt a neighbour's work counts for the job and never against it. Only readings for the whole time
since the last one count: one instant of 0 % says nothing about a job that works 5 % of each second.

What the driver says of each process is sampled: about five times a second it names the one that runs. Beside others
that run, a job that works little or has to wait for its turns is often not named for seconds, or, beside many, for
minutes. So there its idleness is believed only after some minutes, the more the more others hold the GPU.
"""

from collections.abc import Hashable, Iterable, Mapping
from enum import StrEnum

from fallow.core.activity import Activity, judge
from fallow.core.findings import Evidence, Verdict, gpu_key, process_key
from fallow.core.gpu import Gpu, Holder, Snapshot
from fallow.core.owner import NO_OWNER, Owner
from fallow.core.process import Process
from fallow.core.protections import AffectedProcess
from fallow.core.reasons import Reason, WithReason
from fallow.core.units import program_name
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace, value

IDLE_BELOW = 0.01
_MISSED_S, _MISSED_FOR_EACH_S = 300.0, 10.0
"""How long the samples may miss a job that works 2 % of the time, and how much longer for each other process."""
MOST_NAMED = 64
"""So many processes of a job are named in an entry of the journal; a user can have thousands on a GPU."""


@value
class GpuKey:
    """A GPU among those of several machines: its host and its UUID."""

    host: str
    uuid: str

    def find_in(self, snapshot: Snapshot) -> Gpu | Unknown:
        """Return this GPU; it is Unknown in a snapshot of another host."""
        if self.host != snapshot.host:
            return Unknown(f"GPU {self.uuid} is in {self.host}, and these readings are from {snapshot.host}")
        return find_gpu(snapshot, self.uuid)


@value
class Job:
    """What was started together and ends together, as far as it holds GPUs. A `JobSource` finds jobs."""

    key: Hashable
    """What identifies the job from one snapshot to the next."""
    user: str
    members: Mapping[Process, str]
    """The processes that hold GPUs, with their commands."""
    gpus: tuple[GpuKey, ...]
    pids: frozenset[int] | Unknown
    """The processes whose work is counted as the job's; Unknown where it cannot be separated from that of others."""
    doubtful: tuple[GpuKey, ...] = ()
    """GPUs whose holders are not known: the job may work there."""
    owner: Owner = NO_OWNER
    opt_out: Reason | None = None
    """Why its people said that it must be left alone."""
    idle_for_s: float | None = None
    """How long its people said that it may be idle."""
    others: Mapping[Process, str] = {}
    """Whose processes those are that are not `user`'s: a container ends as a whole, whoever its processes run as."""

    @property
    def first(self) -> Process:
        """Return the oldest process of the job, which messages name."""
        return min(self.members, key=lambda process: (process.birth, process.pid))

    @property
    def name(self) -> str:
        """Return its name for people: its oldest process, and how many more there are."""
        more = f" and {len(self.members) - 1} more" if len(self.members) > 1 else ""
        owner = f", {self.owner.public_label}" if self.owner.public_label else ""
        return f"job {self.first.pid} ({program_name(self.members[self.first])}){more}{owner}"

    @property
    def subject(self) -> str:
        """Return its name in the journal and in messages."""
        return f"{self.user}'s {self.name}"

    @property
    def users(self) -> frozenset[str]:
        """Return all whose processes it has."""
        return frozenset((self.user, *self.others.values()))

    @property
    def uuids(self) -> tuple[str, ...]:
        """Return the UUIDs of the GPUs that it holds."""
        return tuple(gpu.uuid for gpu in self.gpus)

    @property
    def keys(self) -> list[str]:
        """Return the keys under which the journal keeps events about the job: its GPUs, its oldest processes."""
        oldest = sorted(self.members, key=lambda process: (process.birth, process.pid))[:MOST_NAMED]
        return [*(process_key(one.pid, one.birth) for one in oldest), *(gpu_key(uuid) for uuid in self.uuids)]

    @property
    def process_keys(self) -> tuple[str, ...]:
        """Return the keys under which the journal keeps events about its processes."""
        return tuple(process_key(process.pid, process.birth) for process in self.members)

    @property
    def processes(self) -> tuple[AffectedProcess, ...]:
        """Return its processes, to compare them with protections."""
        return tuple(
            AffectedProcess(one.pid, one.birth, self.others.get(one, self.user), line)
            for one, line in self.members.items()
        )


class JobActivity(StrEnum):
    """What a job did since the last reading."""

    BUSY = "busy"
    IDLE = "idle"
    UNKNOWN = "unknown"


@value
class JobFinding(WithReason):
    """What a job did, why, and the readings that show it."""

    activity: JobActivity
    reason: Reason
    seen: tuple[tuple[Gpu, frozenset[int] | Unknown], ...] = ()
    """The GPUs as they were, each with the processes of the job."""
    conditions: Evidence = ()
    """Each condition that was looked at, and what it said."""
    believed_after_s: float = 0.0
    """Shorter idleness is not believed yet: others ran on the GPU, and the samples may have missed the job."""

    @property
    def evidence(self) -> Evidence:
        """Return the readings as text, which is made only when it is needed, not at every tick."""
        return (*(pair for gpu, pids in self.seen for pair in _evidence(gpu, pids)), *self.conditions)

    def verdict(self, subject: str) -> Verdict:
        """Return the finding as a verdict on a subject."""
        return Verdict(subject, self.activity, self.reason, self.evidence)


def job_activity(
    snapshot: Snapshot, gpus: Iterable[GpuKey], pids: frozenset[int] | Unknown, idle_below: float = IDLE_BELOW
) -> JobFinding:
    """Return what the job with these processes did on these GPUs."""
    findings = [_on_gpu(gpu.find_in(snapshot), pids, idle_below) for gpu in gpus]
    seen = tuple(pair for finding in findings for pair in finding.seen)
    for activity in (JobActivity.BUSY, JobActivity.UNKNOWN, JobActivity.IDLE):
        reasons = [finding.reason for finding in findings if finding.activity is activity]
        if reasons:
            reason, more = reasons[0], len(reasons) - 1
            told = Reason("and_more", found=reason, more=more) if more else reason
            return JobFinding(activity, told, seen, believed_after_s=max(each.believed_after_s for each in findings))
    return JobFinding(JobActivity.UNKNOWN, Reason("no_gpu"))


def with_conditions(idle: JobFinding, said: Iterable[tuple[str, Reason | Unknown | None]]) -> JobFinding:
    """Return what a job does that is idle on its GPUs, by what each condition says: a reason, Unknown, or no.

    One reason makes it busy. Else one that cannot be told makes it unknown: then it is neither counted nor stopped.
    """
    answers = tuple(said)
    evidence = tuple((f"unless {text}", "no" if found is None else str(found)) for text, found in answers)
    for text, found in answers:
        if isinstance(found, Reason):
            return replace(
                idle, activity=JobActivity.BUSY, reason=found.with_facts(condition=text), conditions=evidence
            )
    for text, found in answers:
        if isinstance(found, Unknown):
            kind = "condition_unknown" if found.asked else "condition_begins"
            doubt = Reason(kind, condition=text, why=found.why)
            return replace(idle, activity=JobActivity.UNKNOWN, reason=doubt, conditions=evidence)
    return replace(idle, conditions=evidence)


def find_gpu(snapshot: Snapshot, uuid: str) -> Gpu | Unknown:
    """Return the GPU with this UUID; one that cannot be read now is Unknown, not gone."""
    for gpu in snapshot.gpus:
        if gpu.uuid == uuid:
            return gpu
    return Unknown(f"GPU {uuid} is not to be seen")


def stretch_load(gpu: Gpu) -> float | Unknown:
    """Return how much ran on the GPU since the last reading, a ratio: the highest that any reading says."""
    if gpu.trouble is not None:
        return Unknown(gpu.trouble)
    samples = gpu.recent if isinstance(gpu.recent, Unknown) else gpu.recent.mean
    counted = _counted_load(gpu)
    # One instant of work is work; one instant of nothing does not show that nothing ran.
    instant = known(gpu.utilization, 0.0)
    witnesses = [load for load in (samples, counted) if not isinstance(load, Unknown)]
    if witnesses or instant > 0:
        return max([*witnesses, instant])
    if judge(gpu).activity is Activity.FREE:
        return 0.0
    return samples


def own_holders(gpu: Gpu, pids: frozenset[int] | Unknown) -> tuple[Holder, ...] | Unknown:
    """Return those of the job's processes that hold this GPU."""
    if isinstance(pids, Unknown):
        return pids
    if isinstance(gpu.holders, Unknown):
        return gpu.holders
    return tuple(holder for holder in gpu.holders if holder.pid in pids)


def own_load(gpu: Gpu, pids: frozenset[int] | Unknown) -> float | Unknown:
    """Return how much the job's own processes ran on this GPU, where the driver gives it for each."""
    own = own_holders(gpu, pids)
    if isinstance(own, Unknown):
        return own
    if not own:
        # Inside a container the driver's pids are not ours: not listed is not the same as not there.
        return Unknown("none of its processes is listed")
    total = 0.0
    for holder in own:
        if isinstance(holder.utilization, Unknown):
            return Unknown(f"what pid {holder.pid} ran is {holder.utilization}")
        total += holder.utilization
    return min(1.0, total)


def _on_gpu(gpu: Gpu | Unknown, pids: frozenset[int] | Unknown, idle_below: float) -> JobFinding:
    if isinstance(gpu, Unknown):
        return JobFinding(JobActivity.UNKNOWN, Reason("gpu_unknown", why=gpu.why))
    label, seen = gpu.label, ((gpu, pids),)
    if gpu.trouble is not None:
        return JobFinding(JobActivity.UNKNOWN, Reason("gpu_trouble", gpu=label, trouble=gpu.trouble), seen)
    own, card = own_load(gpu, pids), stretch_load(gpu)
    others = 0
    if isinstance(own, Unknown):
        if isinstance(card, Unknown):
            return JobFinding(JobActivity.UNKNOWN, Reason("load_unknown", gpu=label, why=card.why), seen)
        load, whose = card, "the card"
    else:
        # If no other process is on the card, or none is said to have run, what ran there may be the job's.
        others = _others(gpu, pids)
        apart = others and _somebody_ran(gpu, idle_below)
        load, whose = own if apart else max(own, known(card, own)), "its processes"
    if load >= idle_below:
        return JobFinding(JobActivity.BUSY, Reason("job_ran", gpu=label, whose=whose, load=load), seen)
    if gpu.holders == () and judge(gpu).activity is Activity.FREE:
        return JobFinding(JobActivity.IDLE, Reason("job_absent", gpu=label), seen)
    below = Reason("job_idle", gpu=label, whose=whose, load=load, below=idle_below)
    if not others or card == 0:
        return JobFinding(JobActivity.IDLE, below, seen)
    after_s = _MISSED_S + others * _MISSED_FOR_EACH_S
    beside = Reason("job_idle_beside", found=below, others=others, after_s=after_s)
    return JobFinding(JobActivity.IDLE, beside, seen, believed_after_s=after_s)


def _somebody_ran(gpu: Gpu, least: float) -> bool:
    """Return whether the driver says that one of its processes ran. It does not say whose copies are."""
    holders = () if isinstance(gpu.holders, Unknown) else gpu.holders
    return any(known(holder.utilization, 0.0) >= least for holder in holders)


def _others(gpu: Gpu, pids: frozenset[int] | Unknown) -> int:
    """Return how many processes hold this GPU that are not the job's."""
    if isinstance(pids, Unknown) or isinstance(gpu.holders, Unknown):
        return 0
    return sum(holder.pid not in pids for holder in gpu.holders)


def _counted_load(gpu: Gpu) -> float | Unknown:
    """Return what the hardware counters show. Copies use no multiprocessor, and show in the memory traffic."""
    if isinstance(gpu.counters, Unknown):
        return gpu.counters
    sm, dram = gpu.counters.sm, gpu.counters.dram
    if isinstance(sm, Unknown):
        return sm
    return dram if isinstance(dram, Unknown) else max(sm, dram)


def _evidence(gpu: Gpu, pids: frozenset[int] | Unknown) -> Evidence:
    where = f"GPU {gpu.label}"
    if gpu.trouble is not None:
        return ((where, gpu.trouble),)
    pairs: list[tuple[str, str]] = []
    if isinstance(gpu.recent, Unknown):
        pairs.append((f"{where} utilization", str(gpu.recent)))
    else:
        recent = gpu.recent
        text = f"{recent.mean:.1%} on average, {recent.peak:.0%} at most in the last {recent.seconds:.1f} s"
        pairs.append((f"{where} utilization", text))
    if not isinstance(gpu.counters, Unknown):
        pairs.append((f"{where} counters", str(gpu.counters)))
    if not isinstance(gpu.power_w, Unknown):
        pairs.append((f"{where} power", f"{gpu.power_w:.0f} W"))
    own = own_holders(gpu, pids)
    if isinstance(own, Unknown):
        pairs.append((f"{where} processes of the job", str(own)))
    listed = () if isinstance(own, Unknown) else own
    for holder in listed[:MOST_NAMED]:
        ran = holder.utilization
        text = str(ran) if isinstance(ran, Unknown) else f"ran {ran:.0%} of the time"
        pairs.append((f"{where} pid {holder.pid}", text))
    if len(listed) > MOST_NAMED:
        pairs.append((f"{where} processes of the job", f"and {len(listed) - MOST_NAMED} more"))
    return tuple(pairs)
