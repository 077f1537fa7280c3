"""Find the jobs on the GPUs: which processes hold GPUs, and which of them belong together.

A job is all processes of one user that hold GPUs and were started together: in one session of the kernel (a terminal,
a service, one command through ssh), and in sessions that were begun from there, as launchers do for each of their
workers. The way up ends at a terminal, at another user, and at programs that start unrelated things, such as a
notebook server. What `fallow run` started with a claim of its own is a job of its own. What an owner ends as a whole
(a container, a service, a notebook's kernel) is one job, whoever its processes run as.

A GPU without processes is held by the process that has claimed it, if the kernel shows that it holds the claim.

A process belongs to no job, and is never touched, if /proc does not show it, its owner or its command; if fallow
depends on it; if our own or root's fallow watches it or fills with it; and if it serves all users of the machine,
as a display server, a monitor or the MPS server does.

What a command of a rule runs is a job like any other.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import islice

from fallow.actuators.claims.claims import CLAIM, claim_on
from fallow.actuators.process.signals import untouchable
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import GpuKey, Job
from fallow.core.owner import NO_OWNER, Owner
from fallow.core.process import DEEPEST, Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.fill.newcomers import MONITORS
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact
from fallow.engine.owners.known import KnownOwners
from fallow.engine.owners.opt_outs import NONE, VARIABLE, OptOuts, idle_for_s, opted_out, protected_unit
from fallow.readers.claim_owner import ClaimOwners
from fallow.readers.proc import Stat

_STARTS_FOR_OTHERS = frozenset(
    (
        *("systemd", "init", "cron", "crond", "atd", "sshd", "sshd-session", "login", "slurmstepd"),
        *("containerd-shim-runc-v2", "conmon", "tmux: server", "screen", "SCREEN"),
        *("jupyter", "jupyter-lab", "jupyterlab", "jupyter-notebook", "jupyter-server", "jupyterhub-singleuser"),
    )
)
_MPS = "nvidia-cuda-mps-server"
_SERVES_EVERYBODY = {
    *(_MPS, "nvidia-cuda-mps-control", "Xorg", "X", "Xwayland", "gnome-shell", "gdm", "sddm", "lightdm"),
    *("kwin_x11", "kwin_wayland", "plasmashell", "weston", "sway", "mutter"),
    *MONITORS,
}
_MIXED = Unknown("they share a GPU through MPS")
_CLAIM = "FALLOW_CLAIM"
JobKey = tuple[str, int | str] | tuple[str, int | None, str, str]
"""The user, and the session at which the way up ends, with its claim; or the key of an owner that ends as a whole."""


@value
class _Known:
    """What is known about a process that belongs to a job."""

    key: JobKey
    user: str
    command: str
    environ: Mapping[str, str]
    """Its variables that say something about its job, as it was started."""


class JobFinder:
    """Finds jobs. It remembers which process was on which GPU: one that cannot be read now was not left."""

    def __init__(
        self, world: World, owners: KnownOwners, opt_outs: OptOuts = NONE, *, watched_too: bool = False
    ) -> None:
        """`watched_too`: also jobs that our own or root's fallow watches, which a person may stop by hand."""
        self._world = world
        self._owners = owners
        self.opt_outs = opt_outs
        """What the config protects by its name."""
        self._is_ours = self._is_this_fallow if watched_too else self.is_fallows
        self._on: dict[Process, set[str]] = {}
        self._known: dict[Process, _Known] = {}
        self._servers: set[Process] = set()
        self._claim_owners = ClaimOwners(world.proc, world.clock)

    def jobs(self, snapshot: Snapshot) -> list[Job]:
        """Return all jobs of people that hold a GPU now."""
        order: list[str] = []
        doubtful: list[str] = []
        stat = cache(self._living)  # a process on several GPUs is looked up once
        self._on = {process: cards for process, cards in self._on.items() if _is(process, stat(process.pid))}
        for gpu in snapshot.gpus:
            uuid = card_name(gpu)
            order.append(uuid)
            if _is_sure(gpu):
                for cards in self._on.values():
                    cards.discard(uuid)
            else:
                doubtful.append(uuid)
            for process in self._claimers(gpu) if gpu.holders == () else _holders(gpu, stat):
                self._on.setdefault(process, set()).add(uuid)
        self._on = {process: cards for process, cards in self._on.items() if cards}
        self._known = {process: known for process, known in self._known.items() if process in self._on}
        self._servers.intersection_update(self._on)
        return self._grouped(snapshot.host, order, doubtful)

    def is_fallows(self, pid: int) -> bool:
        """Return whether a process is fallow, is run by a fallow, or is one that ours depends on."""
        if self._is_this_fallow(pid):
            return True
        above = tuple(islice(self._world.proc.ancestors(pid), DEEPEST))
        return os.getpid() not in above and any(map(self.is_a_fallow, above))

    def _is_this_fallow(self, pid: int) -> bool:
        """Return whether a process is a fallow, is one that this one depends on, or is run by a keeper of ours."""
        if pid in untouchable(self._world.proc) or self.is_a_fallow(pid):
            return True
        line = (pid, *islice(self._world.proc.ancestors(pid), DEEPEST))
        below_us = line[: line.index(os.getpid())] if os.getpid() in line else ()
        return any(map(self.is_a_fallow, below_us))

    def is_a_fallow(self, pid: int) -> bool:
        """Return whether a process is a fallow, by names that only we or root can give a program."""
        names = self._world.proc.trusted_names(pid)
        return any(name == "fallow" or name.startswith("fallow.") for name in names)

    def is_alive(self, process: Process) -> bool:
        """Return whether it is the same process, and has not ended."""
        return not self._world.proc.has_ended(process.pid, process.birth)

    def _living(self, pid: int) -> Stat | None:
        """Return its stat unless it has ended: the driver may list it a moment longer."""
        stat = self._world.proc.stat(pid)
        return None if stat is None or not self.is_alive(Process(pid, stat.birth)) else stat

    def _grouped(self, host: str, order: list[str], doubtful: list[str]) -> list[Job]:
        members: dict[JobKey, dict[Process, str]] = {}
        owners: dict[JobKey, Owner] = {}
        for process in self._on:
            known = self._learn(process)
            if known is not None:
                owner = self._owners.of(process)
                owner = NO_OWNER if isinstance(owner, Unknown) else owner
                key = owner.key if owner.is_asked else known.key
                members.setdefault(key, {})[process] = known.command
                owners.setdefault(key, owner)
        jobs: list[Job] = []
        for key, processes in members.items():
            held = {uuid for process in processes for uuid in self._on[process]}
            uuids = [uuid for uuid in order if uuid in held] + sorted(held.difference(order))
            elsewhere = [uuid for uuid in doubtful if uuid not in held]
            gpus, others = (tuple(GpuKey(host, uuid) for uuid in each) for each in (uuids, elsewhere))
            mixed = any(not held.isdisjoint(self._on[server]) for server in self._servers if server in self._on)
            pids = _MIXED if mixed else frozenset(process.pid for process in processes)
            job = Job(key, "", processes, gpus, pids, others, owners[key])
            jobs.append(self._told(self._with_users(job)))
        return jobs

    def _with_users(self, job: Job) -> Job:
        """Return the job with the users of its processes; it bears the name of the first one's."""
        user = self._known[job.first].user
        users = {process: self._known[process].user for process in job.members}
        return replace(job, user=user, others={each: name for each, name in users.items() if name != user})

    def _told(self, job: Job) -> Job:
        """Return the job with what its people said about it."""
        contact = self._owners.contact(job.first, job.owner)
        facts = contact.facts if isinstance(contact, Contact) else None
        units = (protected_unit(self._owners.traced(one), self.opt_outs) for one in job.members)
        said = (opted_out(job.owner, facts, one.pid, self._known[one].environ, self.opt_outs) for one in job.members)
        opt_out = next(filter(None, (*units, *said)), None)
        idle_s = idle_for_s(facts)
        if opt_out is None and idle_s is None:
            return job
        return replace(job, opt_out=opt_out, idle_for_s=idle_s if isinstance(idle_s, float) else None)

    def _claimers(self, gpu: Gpu) -> Iterable[Process]:
        """Return the process that has claimed a GPU without processes, if `fallow run` gave it that GPU.

        A claim can be handed to any program that takes descriptors from strangers, such as a message bus. The
        environment that a process was started with is its user's own.
        """
        if isinstance(gpu.uuid, Unknown):
            return
        process = self._owner_of_claim(gpu.uuid)
        if process is not None and self.is_alive(process) and self._was_given(process, gpu.uuid):
            yield process

    def _owner_of_claim(self, uuid: str) -> Process | None:
        """Return the process that holds the claim on a GPU, as the kernel shows it; None if that is not shown."""
        try:
            fd = self._world.folder.peek(uuid)
        except FallowError:
            return None
        if fd is None:
            return None
        try:
            claim = claim_on(fd)
            if claim is None:
                return None
            named = None if claim.pid is None or claim.birth is None else Process(claim.pid, claim.birth)
            return self._claim_owners.owner(fd, CLAIM, named)
        finally:
            os.close(fd)

    def _was_given(self, process: Process, uuid: str) -> bool:
        environ = self._world.proc.environ(process.pid) or {}
        return uuid in environ.get(_CLAIM, "").split(",")

    def _learn(self, process: Process) -> _Known | None:
        known = self._known.get(process)
        if known is None:
            known = self._look_at(process)  # the same process may become another program, and so belong to a job
            if known is not None:
                self._known[process] = known
        return known

    def _look_at(self, process: Process) -> _Known | None:
        proc = self._world.proc
        user, command = proc.user(process.pid), proc.command(process.pid)
        stat = proc.stat(process.pid)
        if isinstance(user, Unknown) or isinstance(command, Unknown) or stat is None or stat.birth != process.birth:
            return None
        names = proc.trusted_names(process.pid)
        if _MPS in names:
            self._servers.add(process)
        if not _SERVES_EVERYBODY.isdisjoint(names):
            return None
        if stat.of_kernel or self._is_ours(process.pid):
            return None
        environ = proc.variables(process.pid, _CLAIM, VARIABLE) or {}
        session, claim = self._top_session(stat, user), environ.get(_CLAIM)
        return _Known((user, session if claim is None else f"{session}:{claim}"), user, command, environ)

    def _top_session(self, stat: Stat, user: str) -> int:
        proc = self._world.proc
        session, passed = stat.session, set[int]()
        while session not in passed and len(passed) < DEEPEST:
            passed.add(session)
            leader = proc.stat(session)
            parent = None if leader is None or leader.has_terminal else proc.stat(leader.parent)
            if parent is None or parent.pid in (1, os.getpid()) or proc.user(parent.pid) != user:
                break
            if not _STARTS_FOR_OTHERS.isdisjoint(proc.called(parent.pid)):
                break
            session = parent.session
        return session


def card_name(gpu: Gpu) -> str:
    """Return the UUID, or, where it is not known, a name that no snapshot has, so that its load stays unknown."""
    return f"number {gpu.label}" if isinstance(gpu.uuid, Unknown) else gpu.uuid


def _is(process: Process, stat: Stat | None) -> bool:
    """Return whether that is the same process."""
    return stat is not None and stat.birth == process.birth


def _holders(gpu: Gpu, living: Callable[[int], Stat | None]) -> Iterable[Process]:
    if isinstance(gpu.holders, Unknown):
        return
    for holder in gpu.holders:
        stat = living(holder.pid)
        if stat is not None:
            yield Process(holder.pid, stat.birth)


def _is_sure(gpu: Gpu) -> bool:
    return gpu.trouble is None and not isinstance(gpu.holders, Unknown) and not isinstance(gpu.uuid, Unknown)
