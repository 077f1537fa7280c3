"""Find the jobs that a person means, and refuse what is not theirs, before anything is touched.

A GPU or a process means the processes themselves with all below them, not others that were started together with
them: who names GPU 3 wants GPU 3. What an owner ends as a whole (a container, a unit, a notebook's kernel) is one job
whatever was named. Fillers are no jobs: they leave by themselves.
"""

import os
from collections.abc import Container, Mapping, Sequence
from itertools import islice

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import NothingFound, NotPermitted
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import Job
from fallow.core.owner import OwnerKind
from fallow.core.ports import Depth
from fallow.core.process import DEEPEST, Process
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.reservations import Claim
from fallow.core.units import bytes_for_people, printable, program_name
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.allocate.subjects import TO_STOP, JobSubject, NamedOwner, SomeGpus, job_subjects, matches, who_is
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import filler_pids
from fallow.engine.owners.known import KnownOwners
from fallow.engine.stop.hidden_holders import HiddenHolders, has_unseen_memory

_OWNERS_ANSWER_WITHIN_S = 5.0
_MOST_NAMED = 8
_LISTED_BY = "`fallow status` lists the processes on GPUs"
_FILLER = "a filler of fallow, which leaves as soon as somebody needs the GPU"
_TO_END_FILLERS = (
    "to end it, end the `fallow fill` that runs it, or disable it in the config of `fallow up` and reload"
)


@value
class FoundJob:
    """A job that a person means, or the part of it."""

    job: Job
    whole: Job
    """With all that was started together with it: if one of these works, it is not idle."""
    gpus: tuple[Gpu, ...]
    """The GPUs that it holds, as they were."""
    memory_bytes: int | Unknown
    """How much of their memory it holds."""
    nodes: tuple[str, ...] = ()
    """The device nodes by which it was found, where the driver does not list it."""

    @property
    def staying(self) -> int:
        """Return how many processes that were started together with it hold other GPUs, and stay."""
        return len(self.whole.members) - len(self.job.members)


class JobsByHand:
    """Finds jobs for one command. It remembers who was hidden, so that later looks are cheap."""

    def __init__(self, world: World, owners: KnownOwners, finder: JobFinder) -> None:
        self._world = world
        self._owners = owners
        self._finder = finder
        self._hidden = HiddenHolders(world)
        self._fillers: Mapping[str, frozenset[int]] = {}

    def look(self) -> Snapshot:
        """Return all GPUs now, with holders whom the driver does not list."""
        snapshot = self._world.gpu_reader.look(Depth.HOLDERS)
        return replace(snapshot, gpus=self._hidden.added_to(snapshot.gpus))

    def jobs(self, snapshot: Snapshot) -> list[Job]:
        """Return all jobs of people that hold a GPU in a snapshot of `look`."""
        fillers = {gpu.label: filler_pids(self._world, gpu) for gpu in snapshot.gpus}
        self._fillers = {label: pids for label, pids in fillers.items() if pids}
        gpus = tuple(_without(gpu, fillers[gpu.label]) for gpu in snapshot.gpus)
        return self._finder.jobs(replace(snapshot, gpus=gpus))

    def jobs_with_owners(self) -> tuple[Snapshot, list[Job]]:
        """Return all jobs now, when their owners have said their names or had time to."""
        self._hidden.find(self._world.gpu_reader.look(Depth.HOLDERS).gpus)
        snapshot = self.look()
        self.jobs(snapshot)
        self._owners.finish(_OWNERS_ANSWER_WITHIN_S)
        return snapshot, self.jobs(snapshot)

    def meant(self, texts: Sequence[str]) -> list[FoundJob]:
        """Return the jobs that a person names.

        Raise WrongUsage for what makes no sense, NothingFound for a name of nobody, and NotPermitted if a job is
        another user's and we are not root.
        """
        subjects = job_subjects(texts, TO_STOP, self._world)
        snapshot, jobs = self.jobs_with_owners()
        found: dict[object, FoundJob] = {}
        for subject in subjects:
            parts = [self._part(job, subject, snapshot) for job in jobs if matches(subject, who_is(job))]
            if not parts:
                raise self._nothing(subject, snapshot, jobs)
            self._refuse_others(subject, parts, snapshot)
            for part in parts:
                before = found.get(part.key)
                members = part.members if before is None else {**before.job.members, **part.members}
                whole = next(job for job in jobs if job.key == part.key)
                found[part.key] = self._described(self._only(whole, members, snapshot), whole, snapshot)
        return list(found.values())

    def _part(self, job: Job, subject: JobSubject, snapshot: Snapshot) -> Job:
        """Return what of a job is meant: all of it, or its processes on these GPUs, or one of them.

        A process that has only claimed a GPU is listed on none.
        """
        if job.owner.is_asked or not isinstance(subject, SomeGpus | OneProcess):
            return job
        if isinstance(subject, OneProcess):
            return self._only(job, {Process(subject.pid, subject.birth): ""}, snapshot)
        on_them = {pid for gpu in snapshot.gpus if gpu.uuid in subject.uuids for pid in _pids(gpu)}
        listed = set[int]().union(*map(_pids, snapshot.gpus))
        meant = [each for each in job.members if each.pid in on_them]
        return self._only(job, meant or [each for each in job.members if each.pid not in listed], snapshot)

    def _only(self, job: Job, members: Container[Process], snapshot: Snapshot) -> Job:
        """Return the job with these processes alone, and the GPUs that they hold."""
        kept = {each: line for each, line in job.members.items() if each in members}
        if len(kept) == len(job.members):
            return job
        pids, others = ({each.pid for each in some} for some in (kept, job.members.keys() - kept.keys()))
        left = {
            gpu.uuid for gpu in snapshot.gpus if pids.isdisjoint(_pids(gpu)) and not others.isdisjoint(_pids(gpu))
        }
        gpus = tuple(key for key in job.gpus if key.uuid not in left)
        counted = job.pids if isinstance(job.pids, Unknown) else frozenset(pids)
        return replace(job, members=kept, gpus=gpus, pids=counted)

    def _described(self, job: Job, whole: Job, snapshot: Snapshot) -> FoundJob:
        gpus = tuple(gpu for gpu in snapshot.gpus if gpu.uuid in job.uuids)
        pids = [each.pid for each in job.members]
        nodes = self._hidden.nodes_of(pids)
        return FoundJob(job, whole, gpus, _memory(gpus, set(pids)), nodes)

    def _refuse_others(self, subject: JobSubject, jobs: Sequence[Job], snapshot: Snapshot) -> None:
        """Raise NotPermitted if one of the jobs is another user's, or it is not known whose a process is."""
        world = self._world
        if os.geteuid() == 0:
            return
        theirs = next((job for job in jobs if job.users != {world.user}), None)
        mine = any(job.users == {world.user} for job in jobs)
        way = "`fallow stop mine` stops yours alone" if mine else "ask its user, or root"
        if theirs is not None:
            where = f" on {subject}" if isinstance(subject, SomeGpus) else ""
            alone = " alone" if world.user in theirs.users else ""
            sentence = f"{theirs.subject}{where} is not yours{alone}, so nothing is stopped: that needs root"
            raise NotPermitted(sentence, way)
        if isinstance(subject, SomeGpus):
            for gpu in snapshot.gpus:
                unknown = next((pid for pid in _pids(gpu) if isinstance(world.proc.user(pid), Unknown)), None)
                if gpu.uuid in subject.uuids and unknown is not None:
                    sentence = f"whose pid {unknown} on GPU {gpu.label} is cannot be told, so nothing is stopped"
                    raise NotPermitted(sentence, way)

    def _nothing(self, subject: JobSubject, snapshot: Snapshot, jobs: Sequence[Job]) -> NothingFound:
        match subject:
            case SomeGpus(uuids=uuids):
                gpus = [gpu for gpu in snapshot.gpus if gpu.uuid in uuids]
                way = _TO_END_FILLERS if any(gpu.label in self._fillers for gpu in gpus) else ""
                return NothingFound("; ".join(dict.fromkeys(self._why_empty(gpu) for gpu in gpus)), way)
            case OneProcess(pid=pid, birth=birth):
                return self._no_such_process(pid, birth, jobs)
            case OneUser(name=name):
                who = "you have" if name == self._world.user else f"{printable(name)} has"
                way = (
                    ""
                    if name == self._world.user
                    else did_you_mean(name, {user for job in jobs for user in job.users})
                )
                return NothingFound(f"{who} no job on a GPU", way)
            case NamedOwner():
                return self._no_such_owner(subject, jobs)
            case Everything():
                return NothingFound("nobody has a job on a GPU")

    def _why_empty(self, gpu: Gpu) -> str:
        if gpu.trouble is not None or isinstance(gpu.holders, Unknown):
            return f"what is on GPU {gpu.label} cannot be read: {gpu.trouble or gpu.holders}"
        if gpu.label in self._fillers:
            return f"on GPU {gpu.label} is only {_FILLER}"
        if gpu.holders:
            named = ", ".join(self._process(holder.pid) for holder in gpu.holders)
            return f"on GPU {gpu.label} is only {named}, which serves all users, is fallow's, or cannot be seen"
        if has_unseen_memory(gpu):
            used = 0 if isinstance(gpu.memory, Unknown) else gpu.memory.used_bytes
            who = "" if os.geteuid() == 0 else "; root can see who has the GPU open"
            return f"{bytes_for_people(used)} on GPU {gpu.label} are held by no process that can be seen{who}"
        claim = None if isinstance(gpu.uuid, Unknown) else claim_of(self._world, gpu.uuid)
        claimed = f", which is {printable(str(claim))}" if isinstance(claim, Claim) else ""
        return f"nobody is on GPU {gpu.label}{claimed}"

    def _no_such_process(self, pid: int, birth: int, jobs: Sequence[Job]) -> NothingFound:
        if birth == 0:
            return NothingFound(f"there is no process {pid}", _LISTED_BY)
        if self._world.proc.has_ended(pid, birth):
            return NothingFound(f"process {pid} has ended", _LISTED_BY)
        if any(pid in pids for pids in self._fillers.values()):
            return NothingFound(f"{self._process(pid)} is {_FILLER}", _TO_END_FILLERS)
        if self._finder.is_a_fallow(pid):
            return NothingFound(f"{self._process(pid)} is fallow's own")
        holders = [each.pid for job in jobs for each in job.members]
        below = [f"pid:{each}" for each in holders if pid in islice(self._world.proc.ancestors(each), DEEPEST)]
        way = f"below it are {', '.join(below[:_MOST_NAMED])}" if below and pid != 1 else _LISTED_BY
        return NothingFound(f"{self._process(pid)} uses no GPU", way)

    def _no_such_owner(self, subject: NamedOwner, jobs: Sequence[Job]) -> NothingFound:
        viewer = self._world.viewer
        alike = [job for job in jobs if job.owner.kind is subject.kind]
        if subject.kind is OwnerKind.NOTEBOOK:
            alike = [job for job in alike if viewer.may_read(job.user)]
        names = {job.owner.name for job in alike if not isinstance(job.owner.name, Unknown)}
        silent = len(alike) - sum(not isinstance(job.owner.name, Unknown) for job in alike)
        unsaid = f"; {silent} on a GPU did not say a name" * bool(silent)
        listed = f"there is {', '.join(sorted(map(printable, names)))}" if names else ""
        return NothingFound(f"no {subject} is on a GPU{unsaid}", did_you_mean(subject.name, names) or listed)

    def _process(self, pid: int) -> str:
        command = self._world.proc.command(pid)
        return f"pid {pid}" if isinstance(command, Unknown) else f"pid {pid} ({program_name(command)})"


def _pids(gpu: Gpu) -> set[int]:
    return set() if isinstance(gpu.holders, Unknown) else {holder.pid for holder in gpu.holders}


def _without(gpu: Gpu, pids: frozenset[int]) -> Gpu:
    if isinstance(gpu.holders, Unknown) or pids.isdisjoint(_pids(gpu)):
        return gpu
    return replace(gpu, holders=tuple(holder for holder in gpu.holders if holder.pid not in pids))


def _memory(gpus: Sequence[Gpu], pids: set[int]) -> int | Unknown:
    total = 0
    for gpu in gpus:
        for holder in () if isinstance(gpu.holders, Unknown) else gpu.holders:
            if holder.pid not in pids:
                continue
            if isinstance(holder.memory_bytes, Unknown):
                return holder.memory_bytes
            total += holder.memory_bytes
    return total
