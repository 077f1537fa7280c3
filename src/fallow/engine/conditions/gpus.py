"""Answer whether GPUs are idle by conditions too: are the jobs that are on them now in use?"""

from collections.abc import Callable, Sequence

from fallow.core.activity import Activity
from fallow.core.gpu_status import GpuStatus, Status, people_on
from fallow.core.idle_answer import IdleAnswer
from fallow.core.job import Job, JobActivity, JobFinding, with_conditions
from fallow.core.process import Process
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown, known
from fallow.core.value import replace
from fallow.engine.conditions.job import JobConditions
from fallow.engine.conditions.rate import Found
from fallow.engine.jobs.ports import JobCondition
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners

LOOK_EVERY_S = 0.1
_ANSWERED_WITHIN_S = 6.0
_NOT_HERE = Unknown("its processes are not visible here")


class GpuConditions:
    """Asks about conditions of the jobs on GPUs. One thread asks and looks."""

    def __init__(self, world: World, say: Callable[[str], None]) -> None:
        self._world = world
        self._conditions = JobConditions(world, KnownOwners(world, say), say)

    def ask(self, texts: Sequence[str], status: Status, answers: Sequence[IdleAnswer]) -> "IdleQuestion":
        """Begin to ask about the GPUs of a status, each with its answer without conditions."""
        judged: list[_Judged] = []
        for gpu, answer in zip(status.gpus, answers, strict=True):
            job = self._job_on(gpu)
            judged.append((answer, job, self._begin(texts, answer, job)))
        return IdleQuestion(self._world, judged)

    def ask_process(self, texts: Sequence[str], pid: int, answer: IdleAnswer) -> "IdleQuestion":
        """Begin to ask about a process that holds no GPU, with all below it."""
        job = self._job("", self._world.user, [pid])
        return IdleQuestion(self._world, [(answer, job, self._begin(texts, answer, job))])

    def _begin(self, texts: Sequence[str], answer: IdleAnswer, job: Job | Unknown) -> "Sequence[_Asked]":
        """Return the conditions to ask."""
        if not answer.idle or isinstance(job, Unknown):
            return ()
        return [_Asked(condition, job) for condition in self._conditions.begin(texts)]

    def _job_on(self, gpu: GpuStatus) -> Job | Unknown:
        """Return all that hold or have claimed a GPU, without its fillers, as one job."""
        holders = people_on(gpu)
        pids = [holder.pid for holder in holders]
        if not pids and gpu.activity is Activity.IDLE and isinstance(gpu.claim, Claim) and gpu.claim.pid is not None:
            pids = [gpu.claim.pid]
        if pids and self._world.simulated is None and self._world.proc.in_pid_namespace_of_its_own():
            return _NOT_HERE
        return self._job(gpu.label, known(holders[0].user, "") if holders else "", pids)

    def _job(self, key: str, user: str, pids: Sequence[int]) -> Job | Unknown:
        members: dict[Process, str] = {}
        for pid in pids:
            stat = self._world.proc.stat(pid)
            if stat is None:
                return _NOT_HERE
            members[Process(pid, stat.birth)] = ""
        return Job(key, user, members, (), frozenset(pids))


class IdleQuestion:
    """Asks the conditions of jobs that are idle otherwise. It is looked at until all are known."""

    def __init__(self, world: World, judged: "Sequence[_Judged]") -> None:
        self._world = world
        self._until_s = world.clock.monotonic_s() + _ANSWERED_WITHIN_S
        self._judged = judged

    def look(self) -> tuple[IdleAnswer, ...] | None:
        """Return the answers, or None while one is not known yet and may be soon. Never waits."""
        found = [_with_conditions(*each) for each in self._judged]
        begins = any(each is None for each in found)
        if begins and self._world.clock.monotonic_s() < self._until_s:
            return None
        late = "its conditions were not told in time"
        return tuple(
            replace(answer, idle=None, because=late) if each is None else each
            for each, (answer, *_) in zip(found, self._judged, strict=True)
        )


class _Asked:
    """One condition of one job, which is asked until it is known."""

    def __init__(self, condition: JobCondition, job: Job) -> None:
        self.text = condition.text
        self._condition = condition
        self._job = job
        self._found: Found = _NOT_HERE
        self._is_known = False

    def __call__(self) -> Found:
        """Return what the condition says."""
        if not self._is_known:
            self._found = self._condition(self._job)
            self._is_known = not isinstance(self._found, Unknown) or self._found.asked
        return self._found


_Judged = tuple[IdleAnswer, Job | Unknown, Sequence[_Asked]]
"""The answer without conditions, the job, and its conditions."""


def _with_conditions(answer: IdleAnswer, job: Job | Unknown, conditions: Sequence[_Asked]) -> IdleAnswer | None:
    """Return the answer for one GPU; None if it is not known yet."""
    if not answer.idle:
        return answer
    if isinstance(job, Unknown):
        return replace(answer, idle=None, because=job.why)
    idle = JobFinding(JobActivity.IDLE, Reason("not_judged"))
    found = with_conditions(idle, [(each.text, each()) for each in conditions])
    match found.activity:
        case JobActivity.BUSY:
            return replace(answer, idle=False, because=f"{answer.because}, but {found.because}")
        case JobActivity.IDLE:
            return answer
        case _ if found.reason.kind == "condition_begins":
            return None
        case _:
            return replace(answer, idle=None, because=f"{answer.because}, but {found.because}")
