"""Act on other people's jobs: warn on their terminals, then signal the processes that hold GPUs and all below them.

A job is touched only if, at that moment, every process of it belongs to its user, none is fallow's, and each may be
signalled. Whether a protection covers it is decided by the arbiter.

Processes of other users below a job of root forbid touching it: root starts other people's work. Below a job of
anybody else they come from setuid programs. They are left alone and protect nothing, or every user could protect a
job by starting one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

from fallow.actuators.host.write_terminals import write_to
from fallow.actuators.process.signals import Handle, untouchable
from fallow.actuators.process.tree import JobTree
from fallow.core.actions import Ask, CancelWarning, Kill, Warn, what_follows
from fallow.core.findings import Outcome
from fallow.core.job import Job
from fallow.core.process import Process, ProcessRow, ProcessTable
from fallow.core.protections import AffectedProcess
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people, program_name
from fallow.core.unknown import Unknown
from fallow.engine.history.run import Run
from fallow.engine.idle_rules.command_before import run_command
from fallow.engine.idle_rules.gpu_jobs import JobFinder
from fallow.engine.jobs import stack_dump
from fallow.engine.jobs.before_ask import BeforeAsk, Beside, Step
from fallow.engine.jobs.ports import DryRunJobActions, JobActions
from fallow.engine.jobs.protections import affected_process, affected_processes
from fallow.engine.jobs.stop import ask_tree, kill_tree, warn_by_signal, way_of_signals
from fallow.engine.machine.world import World
from fallow.engine.owners.actions import OwnerJobActions
from fallow.engine.owners.known import KnownOwners
from fallow.engine.owners.opt_outs import VARIABLE, opted_out_by_variable
from fallow.readers.accounts import user_name
from fallow.readers.terminals import Terminals

_TABLE_LASTS_S = 0.5
_STARTS_WITHIN_S = 10.0  # beside the time that a command may take: its user is looked up, an interpreter starts


class ActionsOnProcesses:
    """Makes the JobActions of a job, real ones or those of a dry run."""

    def __init__(self, run: Run, finder: JobFinder, owners: KnownOwners, terminals: Terminals) -> None:
        self.world = run.world
        self._say = run.say
        self._owners = owners
        self.finder = finder
        self.table = _RecentTable(run.world.proc, run.world.clock.monotonic_s)
        self._terminals = terminals
        self._dry_run = run.dry_run

    def __call__(self, job: Job) -> JobActions:
        """Return the JobActions of the job as it is now."""
        actions: JobActions = ProcessJobActions(self, job)
        contact = self._owners.contact(job.first, job.owner)
        if contact is not None:
            actions = OwnerJobActions(self.world, actions, contact, self._say, job)
        return DryRunJobActions(actions) if self._dry_run else actions

    def terminals_of(self, users: Collection[str]) -> list[str]:
        """Return the terminals that these users are logged in on."""
        people = self._terminals.people()
        theirs = [] if isinstance(people, Unknown) else [each.terminal for each in people if each.user in users]
        return [f"/dev/{terminal}" for terminal in theirs if terminal is not None]


class ProcessJobActions:
    """Acts on the processes that held GPUs when this was made, and on all below them."""

    def __init__(self, shared: ActionsOnProcesses, job: Job) -> None:
        self._shared = shared
        self._world: World = shared.world
        self._job = job

    def describe(self) -> tuple[AffectedProcess, ...]:
        """Return all processes of the job that are alive now."""
        return affected_processes(self._world, self._tree, watcher=False)

    def find(self, pid: int) -> AffectedProcess | None:
        """Return a process of the job, found through its ancestors; None for any other."""
        return affected_process(self._world, pid) if self._tree.has(pid) else None

    def forbidden(self, processes: Sequence[AffectedProcess]) -> Reason | None:
        """Return why one of these processes must not be touched, or None."""
        never = untouchable(self._world.proc)
        for process in processes:
            pid = process.pid
            if isinstance(process.birth, Unknown) and self._world.proc.stat(pid) is None:
                continue  # it has ended since, as children do all the time
            if isinstance(process.birth, Unknown) or isinstance(process.user, Unknown):
                return Reason("owner_unknown", pid=pid)
            if process.user != self._job.user:
                return Reason("other_user", pid=pid, user=process.user, owner=self._job.user)
            opt_out = opted_out_by_variable(pid, self._world.proc.variables(pid, VARIABLE) or {})
            if opt_out is not None:
                return opt_out
            if pid in never or self._shared.finder.is_a_fallow(pid):
                return Reason("fallow_itself", pid=pid)
            handle = Handle.open(self._world.proc, Process(pid, process.birth), never)
            if handle is not None:
                with handle:
                    if not handle.may_signal():
                        return Reason("needs_root", pid=pid, user=process.user)
        return None

    def way(self, action: Ask | Kill) -> str:
        """Return what the action does."""
        return way_of_signals(action)

    def warn(self, action: Warn) -> Outcome | None:
        """Write to the terminals of its user."""
        pid = self._job.first.pid
        parked = (
            f" Parked, its memory leaves the GPU, the process stays, and fallow wake pid:{pid} brings it back."
            if action.parks
            else ""
        )
        told = self._tell_user(
            f"will be {what_follows(action)} in {duration_for_people(action.ask_in_s)} unless it works, because it "
            f"is {action.because}.{parked} To keep it: fallow protect pid:{pid} --for 2h"
        )
        who, verb = " and ".join(sorted(self._job.users)), "are" if self._job.others else "is"
        return Outcome(True, f"told on {', '.join(told)}" if told else f"{who} {verb} at no terminal")

    def warn_by_signal(self, name: str, pids: Collection[int]) -> Outcome:
        """Send it to those of these processes that catch it."""
        return warn_by_signal(self._world.proc, [one for one in self._job.members if one.pid in pids], name)

    def cancel(self, action: CancelWarning) -> None:
        """Write to the terminals of its user."""
        self._tell_user(f"goes on: {action.because}")

    def before_ask(self, wanted: BeforeAsk, variables: Mapping[str, str]) -> Sequence[Step]:
        """Return the writing of its stacks and the command of the rule, each in a thread: both may take long."""
        now, first, command = self._world.clock.monotonic_s, self._job.first, wanted.command
        steps: list[Step] = []
        if wanted.stacks:
            living = [row.process for row in self._tree.living()]

            def write() -> Outcome:
                return stack_dump.write_stacks(self._world, living, first)

            steps.append(Step(stack_dump.WORDS, lambda: Beside("py-spy", write, now, stack_dump.LIMIT_S)))
        if command is not None:
            name = repr(program_name(command.line))

            def run() -> Outcome:
                return run_command(self._world, first, command, dict(variables))

            limit_s = command.limit_s + _STARTS_WITHIN_S
            left_out = self._job.user == user_name(0) and not command.as_root
            words = f"leave out {name}, since the job is root's" if left_out else f"run {name} as {self._job.user}"
            steps.append(Step(words, lambda: Beside(name, run, now, limit_s)))
        return steps

    def ask(self, action: Ask) -> Outcome:
        """Send the polite signal to every process."""
        self._shared.table.forget()
        return ask_tree(self._tree, action.signal)

    def kill(self, _: Kill) -> Outcome:
        """Send SIGKILL once; what is left after a while is named by `survivors`."""
        self._shared.table.forget()
        count = len(self._tree.kill(0.0))
        return Outcome(True, f"SIGKILL to {'1 process' if count == 1 else f'{count} processes'}")

    def survivors(self) -> str:
        """Kill once more what is left, and return its name."""
        self._shared.table.forget()
        outcome = kill_tree(self._tree, 0.0)
        return "" if outcome.ok else outcome.words

    def is_gone(self, job: Job | None) -> str | None:
        """Return how its processes left the GPUs, or None while one of them holds a GPU."""
        if job is not None and not job.members.keys().isdisjoint(self._job.members):
            return None
        lives = any(self._shared.finder.is_alive(process) for process in self._job.members)
        return "it gave its GPUs back" if lives else "nobody of it is left"

    @cached_property
    def _tree(self) -> JobTree:
        """Return its processes with all below them, as one tree: one look at all processes finds it, however many."""
        proc, user, root = self._world.proc, self._job.user, user_name(0)

        def is_anothers(row: ProcessRow) -> bool:
            owner = proc.user(row.pid)
            return not isinstance(owner, Unknown) and owner != user != root

        now = self._world.clock.monotonic_s
        table = self._shared.table
        return JobTree(table, self._job.first, now, spare=is_anothers, beside=self._job.members)

    def _tell_user(self, sentence: str) -> list[str]:
        users = self._job.users
        # A record of a login may be left over, and its terminal another user's by now.
        return write_to(
            self._shared.terminals_of(users),
            f"your {self._job.name} {sentence}",
            lambda uid: uid == 0 or user_name(uid) in users,
        )


class _RecentTable:
    """The process table, read once for all jobs that are described within half a second."""

    def __init__(self, table: ProcessTable, monotonic_s: Callable[[], float]) -> None:
        self._table = table
        self._now = monotonic_s
        self._rows: Sequence[ProcessRow] = ()
        self._read_s = -_TABLE_LASTS_S
        self.pidfds = table.pidfds
        self.stat = table.stat
        self.ancestors = table.ancestors
        self.command = table.command
        self.whose_pids = table.whose_pids
        self.user = table.user

    def everybody(self) -> Sequence[ProcessRow]:
        """Return all processes, as they were half a second ago at most."""
        now_s = self._now()
        if now_s - self._read_s >= _TABLE_LASTS_S:
            self._rows, self._read_s = self._table.everybody(), now_s
        return self._rows

    def forget(self) -> None:
        """Read the table again next time: what is signalled must be what is there now."""
        self._read_s = -_TABLE_LASTS_S
