"""The job that `fallow run` started, as the ladder sees it: where it comes from, and what acts on it."""

import os
from collections.abc import Collection, Mapping, Sequence

from fallow.actuators.process.foreground_job import Supervision
from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.findings import Outcome
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import GpuKey, Job
from fallow.core.protections import AffectedProcess
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.jobs import stack_dump
from fallow.engine.jobs.before_ask import BeforeAsk, Step, Wait, done
from fallow.engine.jobs.protections import affected_process, affected_processes
from fallow.engine.jobs.stop import ask_tree, kill_tree, warn_by_signal, way_of_signals
from fallow.engine.machine.world import World

_KILL_FOR_S = 5.0


class ForegroundJobSource:
    """The one job, with those of its processes that hold GPUs."""

    def __init__(self, world: World, job: Supervision, gpus: Sequence[Gpu], command: str) -> None:
        self._user = world.user
        self._tree = job.tree
        self._uuids = tuple(str(gpu.uuid) for gpu in gpus)
        self._command = command

    def jobs(self, snapshot: Snapshot) -> Sequence[Job]:
        """Return the job."""
        root = self._tree.root
        gpus = tuple(GpuKey(snapshot.host, uuid) for uuid in self._uuids)
        return [Job(root, self._user, {root: self._command}, gpus, self._pids(snapshot, gpus))]

    def _pids(self, snapshot: Snapshot, gpus: Sequence[GpuKey]) -> frozenset[int]:
        holders: set[int] = set()  # a process is looked up once, however many GPUs it holds
        for gpu in (key.find_in(snapshot) for key in gpus):
            if not isinstance(gpu, Unknown) and not isinstance(gpu.holders, Unknown):
                holders.update(holder.pid for holder in gpu.holders)
        return frozenset(pid for pid in holders if self._tree.has(pid))


class ForegroundJobActions:
    """Acts on our own job. Its user reads what fallow says, so a warning needs no more."""

    def __init__(self, world: World, job: Supervision) -> None:
        self._world = world
        self._tree = job.tree

    def describe(self) -> tuple[AffectedProcess, ...]:
        """Return every process of the job, and fallow itself: people may protect either."""
        return affected_processes(self._world, self._tree, watcher=True)

    def find(self, pid: int) -> AffectedProcess | None:
        """Return a process of the job, or fallow itself; None for any other."""
        ours = pid == os.getpid() or self._tree.has(pid)
        return affected_process(self._world, pid) if ours else None

    def forbidden(self, _: Sequence[AffectedProcess]) -> Reason | None:
        """Return None: fallow started it."""
        return None

    def way(self, action: Ask | Kill) -> str:
        """Return what the action does."""
        return way_of_signals(action)

    def warn(self, _: Warn) -> Outcome | None:
        """Do nothing more."""
        return None

    def warn_by_signal(self, name: str, pids: Collection[int]) -> Outcome:
        """Send it to the command itself and to its processes on GPUs, where they catch it."""
        rows = (self._world.proc.stat(pid) for pid in sorted({self._tree.root.pid, *pids}) if self._tree.has(pid))
        return warn_by_signal(self._world.proc, [row.process for row in rows if row], name)

    def cancel(self, _: CancelWarning) -> None:
        """Do nothing more."""

    def before_ask(self, wanted: BeforeAsk, _: Mapping[str, str]) -> Sequence[Step]:
        """Return the writing of its stacks, if they are wanted. Who starts a job needs no command of a config."""
        return [Step(stack_dump.WORDS, self._write_stacks)] if wanted.stacks else []

    def _write_stacks(self) -> Wait:
        """Write the stacks now: in a thread, py-spy could be reaped together with the children of the job."""
        root = self._tree.root
        processes = [row.process for row in self._tree.living()]
        return done(stack_dump.write_stacks(self._world, processes, root))

    def ask(self, action: Ask) -> Outcome:
        """Send the polite signal to every process."""
        return ask_tree(self._tree, action.signal)

    def kill(self, _: Kill) -> Outcome:
        """Kill until nothing is left, or for 5 s."""
        return kill_tree(self._tree, _KILL_FOR_S)

    def survivors(self) -> str:
        """Kill once more what is left, and return its name."""
        outcome = kill_tree(self._tree, 0.0)
        return "" if outcome.ok else outcome.words

    def is_gone(self, _: Job | None) -> str | None:
        """Return "nobody is left" once no process is left, else None."""
        return None if self._tree.living() else "nobody is left"
