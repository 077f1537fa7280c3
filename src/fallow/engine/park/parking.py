"""Park jobs and wake them, beside the loop of the daemon; remember which are parked.

    begin     the job is written down, and a thread takes it off its GPUs (see checkpointed.py)
    turn      once a tick: what the threads have done is said and written to the journal; a job that has ended or is
              no longer parked is forgotten; one whose kernel runs a cell, or whose terminal is used, is woken
    wake      a person wakes jobs; a thread puts each back on its GPUs

Only the main thread changes what is known. Other threads read `jobs`, which is replaced and never changed.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import islice

from fallow.core.errors import FallowError
from fallow.core.findings import Outcome
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import Job
from fallow.core.notices import Notice
from fallow.core.owner import Owner
from fallow.core.parked import ParkedJob, ParkStage
from fallow.core.process import DEEPEST, Process
from fallow.core.protections import AffectedProcess
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.run import Run
from fallow.engine.jobs.ports import ParkResult
from fallow.engine.machine.background import do_once
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.owners.known import KnownOwners
from fallow.engine.park.checkpointed import Checkpoints
from fallow.engine.park.record import ParkRecord
from fallow.engine.park.room import gpus_now, why_no_room
from fallow.engine.park.signs_of_life import SignsOfLife

_LOOKED_AT_AGAIN_AFTER_S = 5.0
_MOST_RESULTS = 1000
_TRIED_AGAIN_AFTER_S = 30.0
_MOST_PROCESSES = 256
Done = Callable[[], None]
Look = Callable[[], Sequence[Gpu]]
Sizes = tuple[tuple[str, int], ...]


class Parking:
    """The jobs that are parked, being parked or being woken."""

    def __init__(self, run: Run, owners: KnownOwners) -> None:
        self._run = run
        self._world = run.world
        self._checkpoints = Checkpoints(run.world)
        self._record = ParkRecord(run.world)
        self._signs = SignsOfLife(run.world, owners)
        self._known = {job.first: job for job in self._record.read()}
        self._done: deque[Done] = deque()
        self._under_way: set[Hashable] = set()
        self._results: dict[Hashable, ParkResult] = {}
        self._looked_s = -math.inf
        self._looking = False
        self._snapshot: Snapshot | None = None
        self._failed_s: dict[Process, float] = {}
        self.jobs: tuple[ParkedJob, ...] = tuple(self._known.values())
        """All of them, for any thread."""

    def open(self) -> None:
        """Open the driver, so that it is known before the first warning whether it can park at all."""
        self._checkpoints.why_unable()

    def why_not(self, job: Job, processes: Sequence[AffectedProcess]) -> str | None:
        """Return why a job cannot be parked, as far as that is known before it is tried."""
        wanted = self._wanted(job, processes)
        return wanted.why if isinstance(wanted, Unknown) else self._checkpoints.why_never(wanted)

    def begin(self, job: Job, processes: Sequence[AffectedProcess]) -> None:
        """Begin to park a job with all its processes; in a dry run, find out whether that could be done."""
        wanted = self._wanted(job, processes)
        self._under_way.add(job.key)
        if isinstance(wanted, Unknown):
            self._failed(job, wanted.why)
            return
        if not self._run.dry_run and not self._note(wanted):
            self._failed(job, "it could not be written down which job is parked")
            return
        work = self._checkpoints.could_park if self._run.dry_run else self._checkpoints.park

        def work_and_tell() -> None:
            try:
                found, result = work(wanted)
            except BaseException as error:  # noqa: BLE001  what broke is in doubt, and the loop is told
                found, result = wanted, ParkResult(False, f"it failed with {type(error).__name__}: {error}", True)
            self._done.append(lambda: self._parked(job, found, result))

        self._in_thread(f"parking {job.first.pid}", work_and_tell)

    def is_under_way(self, job: Job) -> bool:
        """Return whether the job is on its way off its GPUs."""
        self._collect()
        return job.key in self._under_way

    def result(self, job: Job) -> ParkResult | None:
        """Return what came of parking a job, once; None if nothing did yet."""
        return self._results.pop(job.key, None)

    def holds(self, job: Job) -> bool:
        """Return whether all of a job is parked: it then holds next to nothing, and no rule judges it."""
        parked = {
            each for one in self._known.values() if one.stage is not ParkStage.PARKING for each in one.processes
        }
        return bool(parked) and all(process in parked for process in job.members)

    def turn(self, snapshot: Snapshot) -> None:
        """Take in what happened since the last tick, and wake what its people use again."""
        self._snapshot = snapshot
        self._collect()
        if not self._known:
            return
        self._forget_ended()
        self._look_again()
        for job in [each for each in self._parked_now() if self._why_wait(each) is None]:
            sign = self._signs.of(job)
            if sign is not None:
                why_not = why_no_room(self._world, job, snapshot.gpus)
                if why_not is None:
                    self._begin_waking(job, sign)
                elif job.trouble != why_not:
                    self._put(replace(job, trouble=why_not))

    def wake(self, jobs: Iterable[ParkedJob], look: Look) -> list[tuple[ParkedJob, str | None]]:
        """Begin to wake these jobs because a person wants it; return why one cannot be woken now, None if it can.

        `look` looks at the GPUs; it is called only if a job could be woken.
        """
        answers: list[tuple[ParkedJob, str | None]] = []
        for job in jobs:
            known = self._known.get(job.first)
            if known is None or known.stage is not ParkStage.PARKED:
                answers.append((job, None))  # it is awake, or on its way
                continue
            if self._record.living(known) is None:
                self._forget(known)
                answers.append((job, None))
                continue
            why_not = self._why_wait(known) or self._why_no_room(known, look)
            if why_not is None:
                self._begin_waking(known, Reason("as_asked"))
            answers.append((known, why_not))
        return answers

    def end(self) -> None:
        """Say what stays parked: it can be woken without the daemon, and the next one knows it."""
        self._collect()
        for job in self._parked_now():
            self._run.say(f"{job.in_words}; it stays so without the daemon")

    def _why_wait(self, job: ParkedJob) -> str | None:
        """Return why a job is not tried again yet: each try keeps its GPUs from others."""
        failed_s = self._failed_s.get(job.first)
        if failed_s is None:
            return None
        left_s = failed_s + _TRIED_AGAIN_AFTER_S - self._world.clock.monotonic_s()
        if left_s <= 0:
            return None
        return f"{job.trouble or 'it could not be woken'}; it can be tried again in {math.ceil(left_s)} s"

    def _why_no_room(self, job: ParkedJob, look: Look) -> str | None:
        if self._run.dry_run:
            return "the daemon is in a dry run, and wakes nothing"
        return why_no_room(self._world, job, look())

    def _wanted(self, job: Job, processes: Sequence[AffectedProcess]) -> ParkedJob | Unknown:
        """Return the job as it will be when it is parked; Unknown if it must not be."""
        tree = [Process(each.pid, each.birth) for each in processes if not isinstance(each.birth, Unknown)]
        if len(tree) > _MOST_PROCESSES:
            return Unknown(f"it has {len(tree)} processes, and at most {_MOST_PROCESSES} are parked together")
        why_not = self._own_claim(job, tree)
        if why_not is not None:
            return Unknown(why_not)
        sizes = _held_by(self._snapshot, job.uuids, {process.pid for process in tree})
        if isinstance(sizes, Unknown):
            return sizes
        owner = job.owner
        return ParkedJob(
            job.first,
            tuple(tree),
            job.user,
            job.name,
            sizes,
            self._world.clock.wall_s(),
            stage=ParkStage.PARKING,
            owner=(owner.kind.value, owner.id, _name(owner)),
            holders=tuple(job.members),
        )

    def _own_claim(self, job: Job, tree: Sequence[Process]) -> str | None:
        """Return why the GPU would not be free: the job has claimed it, and its lock stays while it lives."""
        above = {*(process.pid for process in tree), *islice(self._world.proc.ancestors(job.first.pid), DEEPEST)}
        for uuid in job.uuids:
            claim = claim_of(self._world, uuid)
            if isinstance(claim, Claim) and (claim.pid is None or claim.pid in above):
                return "it has claimed its GPU with fallow run, so that nobody else could have the GPU"
        return None

    def _parked(self, job: Job, found: ParkedJob, result: ParkResult) -> None:
        if self._run.dry_run and result.parked:
            self._finished(job, result, "dry run: park the job")
            return
        if not result.parked:
            self._drop(found)
            self._failed(job, result.words, in_doubt=result.in_doubt)
            return
        self._put(replace(found, stage=ParkStage.PARKED, since_wall_s=self._world.clock.wall_s()))
        self._finished(job, result, "parked")
        self._tell(found, f"was parked: {result.words}")

    def _failed(self, job: Job, why: str, *, in_doubt: bool = False) -> None:
        would = "would not be" if self._run.dry_run else "was not"
        self._finished(job, ParkResult(False, f"it {would} parked: {why}", in_doubt), "park the job")

    def _finished(self, job: Job, result: ParkResult, action: str) -> None:
        self._under_way.discard(job.key)
        if len(self._results) >= _MOST_RESULTS:
            self._results.clear()  # of jobs that nobody judges any more
        self._results[job.key] = result
        done = "dry_run" if self._run.dry_run else "done"
        self._run.report.tally.action("park", done if result.parked else "failed")
        told = Reason("told", sentence=result.words, step="parked" if result.parked else "park")
        self._run.journal.outcome(job.subject, action, told, job.keys)

    def _begin_waking(self, job: ParkedJob, why: Reason) -> None:
        if self._run.dry_run:
            return
        self._run.journal.action(job.subject, "wake the job", why.with_facts(step="wake"), job.keys)
        self._run.say(f"waking {job.subject}: {why}")
        self._put(replace(job, stage=ParkStage.WAKING, trouble=""))

        def work_and_tell() -> None:
            try:
                outcome = self._checkpoints.wake(job)
            except BaseException as error:  # noqa: BLE001  as above
                outcome = Outcome(False, f"it failed with {type(error).__name__}: {error}")
            self._done.append(lambda: self._woken(job, outcome))

        self._in_thread(f"waking {job.first.pid}", work_and_tell)

    def _woken(self, job: ParkedJob, outcome: Outcome) -> None:
        words = outcome.words if outcome.ok else f"{self._who_is_there(job) or outcome.words}; it stays parked"
        if outcome.ok:
            self._drop(job)
        else:
            self._failed_s[job.first] = self._world.clock.monotonic_s()
            self._put(replace(job, trouble=words))
        told = Reason("told", sentence=words, step="woken" if outcome.ok else "wake")
        self._run.journal.outcome(job.subject, "wake the job", told, job.keys)
        self._run.report.tally.action("wake", "done" if outcome.ok else "failed")
        if outcome.ok:
            self._tell(job, f"was woken: {words}")
        else:
            self._run.say(f"{job.subject} was not woken: {words}")

    def _who_is_there(self, job: ParkedJob) -> str | None:
        """Return who came meanwhile, which says more than the failure; None if that cannot be read now."""
        try:
            return self._why_no_room(job, partial(gpus_now, self._world))
        except (FallowError, OSError, MemoryError):  # a shortage must not leave it on its way for ever
            return None

    def _look_again(self) -> None:
        """Have a thread ask whether what is parked still is: a person may have woken it otherwise."""
        now_s, parked = self._world.clock.monotonic_s(), self._parked_now()
        is_due = now_s - self._looked_s >= _LOOKED_AT_AGAIN_AFTER_S
        if self._run.dry_run or self._looking or not parked or not is_due:
            return
        self._looked_s = now_s
        self._looking = True
        self._in_thread("looking at parked jobs", partial(self._look_at, parked))

    def _look_at(self, parked: Iterable[ParkedJob]) -> None:
        awake: list[ParkedJob] = []
        try:
            awake += [job for job in parked if self._checkpoints.is_parked(job) is False]
        finally:
            self._done.append(lambda: self._looked(awake))

    def _looked(self, awake: Iterable[ParkedJob]) -> None:
        self._looking = False
        for job in awake:
            if self._known.get(job.first) == job:
                self._drop(job)
                self._run.say(f"{job.subject} is not parked any more: it is awake")
                self._run.journal.outcome(job.subject, "parked", "it is awake, and is no longer parked", job.keys)

    def _forget_ended(self) -> None:
        for job in [each for each in self._known.values() if each.stage is not ParkStage.PARKING]:
            living = self._record.living(job)
            if living is None:
                self._forget(job)
            elif living is not job:
                self._put(living)

    def _forget(self, job: ParkedJob) -> None:
        self._drop(job)
        self._run.say(f"{job.subject}, which was parked, has ended")

    def _parked_now(self) -> list[ParkedJob]:
        return [job for job in self._known.values() if job.stage is ParkStage.PARKED]

    def _collect(self) -> None:
        while self._done:
            self._done.popleft()()

    def _in_thread(self, name: str, work: Callable[[], None]) -> None:
        """Begin work that may take minutes."""
        do_once(name, work, self._run.say)

    def _put(self, job: ParkedJob) -> None:
        self._known[job.first] = job
        self._publish()

    def _drop(self, job: ParkedJob) -> None:
        self._known.pop(job.first, None)
        self._failed_s.pop(job.first, None)
        self._publish()

    def _note(self, job: ParkedJob) -> bool:
        """Write a job down before it is touched; return whether that was possible."""
        try:
            self._record.write((*self._known.values(), job))
        except FallowError as error:
            self._run.say(str(error))
            return False
        self._known[job.first] = job
        self.jobs = tuple(self._known.values())
        return True

    def _publish(self) -> None:
        self.jobs = tuple(self._known.values())
        if self._run.dry_run:
            return
        try:
            self._record.write(self.jobs)
        except FallowError as error:
            self._run.say(str(error))

    def _tell(self, job: ParkedJob, sentence: str) -> None:
        self._run.say(f"{job.subject} {sentence}")
        key = f"pid:{job.first.pid}@{job.first.birth}"
        self._run.report.notify(Notice("parked", key, f"{job.subject} {sentence}", job.user))


def _name(owner: Owner) -> str:
    return "" if isinstance(owner.name, Unknown) else owner.name


def _held_by(snapshot: Snapshot | None, uuids: Iterable[str], pids: set[int]) -> Sizes | Unknown:
    """Return how much processes hold of each of these GPUs."""
    found: list[tuple[str, int]] = []
    for uuid in uuids:
        gpu = next((each for each in snapshot.gpus if each.uuid == uuid), None) if snapshot else None
        if gpu is None or isinstance(gpu.holders, Unknown):
            return Unknown(f"what it holds of GPU {uuid} is not known")
        size = 0
        for holder in gpu.holders:
            if holder.pid in pids:
                if isinstance(holder.memory_bytes, Unknown):
                    return Unknown(f"how much GPU memory pid {holder.pid} holds is {holder.memory_bytes}")
                size += holder.memory_bytes
        found.append((uuid, size))
    return tuple(found)
