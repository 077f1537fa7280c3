"""What may be done to people's jobs, and doing it: warn, ask, insist, take back.

Nothing is done unless all of this is true at that moment: no protection, placed or configured, covers the job, its
cards or any process below its holders; none of those processes is fallow's, and each is ours to signal; and not too
many were ended lately. What is refused is written down once, and tried again after a while.

Processes of other users below a job of root's protect it: root starts the work of others. Below anybody else's they
come from setuid programs; they are left alone, and protect nobody, or everybody could be safe by starting one.
"""

from collections.abc import Callable, Collection, Sequence
from typing import assert_never

from fallow.actuators.host.write_terminals import write_to
from fallow.actuators.process.helpers import Helpers
from fallow.actuators.process.signals import Handle, untouchable
from fallow.actuators.process.tree import JobTree
from fallow.core.actions import (
    Ask,
    CancelWarning,
    JobAction,
    Kill,
    Warn,
    in_words,
)
from fallow.core.notices import Notice, NoticeEvent
from fallow.core.process import Process, ProcessRow, ProcessTable
from fallow.core.protections import Affected, AffectedProcess, Protection
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import Journal
from fallow.engine.idle_rules.gpu_jobs import GpuJob, JobFinder
from fallow.engine.idle_rules.rule_state import Asked, RuleState
from fallow.engine.jobs.protection_scope import affected_processes
from fallow.engine.jobs.stack_dump import StackWriting
from fallow.engine.jobs.stop import DryRunJobActions, JobActions, SystemJobActions
from fallow.engine.machine.world import World
from fallow.engine.notify.notifier import Notifier
from fallow.policies.arbiter import (
    Proposal,
    ProtectRules,
    RateLimit,
    Taken,
    arbitrate,
)
from fallow.readers.proc import user_name
from fallow.readers.terminals import Terminals

_TRY_AGAIN_AFTER_S = 10.0
_DIES_WITHIN_S = 5.0


class _ReadOnce:
    """The table of processes, read once for all trees of one deed: once for each would keep the loop waiting."""

    def __init__(self, table: ProcessTable) -> None:
        self._table = table
        self._rows: Sequence[ProcessRow] | None = None
        self.stat = table.stat
        self.ancestors = table.ancestors
        self.command = table.command
        self.whose_pids = table.whose_pids

    def everybody(self) -> Sequence[ProcessRow]:
        """As they were when it was first asked for."""
        if self._rows is None:
            self._rows = self._table.everybody()
        return self._rows

    def forget(self) -> None:
        """Another deed."""
        self._rows = None


class RuleActions:
    """Hands on people's jobs; in a dry run they only say what they would do."""

    def __init__(
        self,
        world: World,
        holding: JobFinder,
        protect_rules: ProtectRules,
        limit: RateLimit,
        journal: Journal,
        tell: Callable[[str], None],
        notices: Notifier,
        terminals: Terminals,
        *,
        dry_run: bool,
        tally: Tally,
    ) -> None:
        self.is_dry_run = dry_run
        self._tally = tally
        self._world = world
        self._holding = holding
        self._protect_rules = protect_rules
        self._limit = limit
        self._journal = journal
        self._tell = tell
        self._notices = notices
        self._terminals = terminals
        self._taken: list[Taken] = []
        self._table = _ReadOnce(world.proc)
        self._stacks: dict[Process, StackWriting] = {}

    def allow(
        self, case: RuleState, actions: Sequence[JobAction], gpus: frozenset[str], protections: Sequence[Protection]
    ) -> bool:
        """Whether all of this may be done now; a refusal is written down."""
        if all(isinstance(action, CancelWarning) for action in actions):
            return True
        now_s = self._world.clock.monotonic_s()
        if now_s < case.refused_until_s:
            return False
        self._table.forget()
        processes = self._touched(self._trees(case))
        why = self._not_ours_to_touch(case.job, processes)
        if why is None:
            why = self._arbitrated(actions, Affected(gpus, processes), now_s, protections)
        if why is not None:
            case.refused_until_s = now_s + _TRY_AGAIN_AFTER_S
            if why != case.refusal:
                case.refusal = why
                self._journal.refusal(case.subject, in_words(actions[0]), why, case.keys)
                self._count(actions[0], "refused")
            return False
        case.refusal = ""
        return self._stacks_are_written(case, actions, [process.pid for process in processes])

    def act(self, case: RuleState, actions: Sequence[JobAction], gpus: frozenset[str]) -> None:
        """Do what was allowed."""
        for action in actions:
            self._journal.action(case.subject, in_words(action), action.because, case.keys)
            match action:
                case Warn(because=because, ask_in_s=ask_in_s):
                    self._warn(case, because, ask_in_s)
                    self._count(action, "done")
                case CancelWarning(because=because):
                    self.cancel_warning(case, because)
                    self._count(action, "done")
                case Ask(because=because, signal=name):
                    self._ask(case, action, gpus)
                    self._say(case, f"asked with SIG{name} to end: {because}")
                case Kill(because=because):
                    self._kill(case, action)
                    self._say(case, f"killed: {because}")
                case _:
                    assert_never(action)

    def cancel_warning(self, case: RuleState, because: str) -> None:
        """The warning no longer holds, nor does the asking."""
        case.asked = None
        self._stacks.pop(case.job.first, None)
        self._say(case, f"goes on: {because}")
        if not self.is_dry_run:
            write_to(self._terminals_of(case.job.user), f"{_your(case.job)} goes on: {because}")

    def follow_up(self, case: RuleState, asked: Asked, holders: Collection[Process]) -> bool:
        """Whether those who were asked are off their cards; else, some time after they were killed, who is left."""
        if not any(root in holders for root in asked.roots):
            lives = any(self._holding.is_alive(root) for root in asked.roots)
            words = "it gave its cards back" if lives else "nobody of it is left"
            self._journal.outcome(case.subject, "stopped", words, case.keys)
            self._say(case, f"stopped: {asked.because}; {words}")
            self._note("stopped", case, f"was stopped: {asked.because}; {words}")
            return True
        if case.survivors_due_s is not None and self._world.clock.monotonic_s() >= case.survivors_due_s:
            case.survivors_due_s = None
            self._table.forget()
            outcome = self._hands(asked.trees).insist()
            self._journal.outcome(case.subject, "kill what is left of the job", outcome.words, case.keys)
            self._say(case, f"could not be ended: {outcome.words}")
        return False

    def _warn(self, case: RuleState, because: str, ask_in_s: float) -> None:
        seconds = duration_for_people(ask_in_s)
        self._say(case, f"warned: {because}; it will be asked to end in {seconds} unless it works")
        self._note("warned", case, f"was warned: {because}; it will be asked to end in {seconds} unless it works")
        if self.is_dry_run:
            return
        told = write_to(
            self._terminals_of(case.job.user),
            f"{_your(case.job)} will be asked to end in {seconds} unless it works, because it is {because}. "
            f"To keep it: fallow protect pid:{case.job.first.pid} --for 2h",
        )
        words = f"told on {', '.join(told)}" if told else f"{case.job.user} is at no terminal that could be told"
        self._journal.outcome(case.subject, "warn", words, case.keys)

    def _ask(self, case: RuleState, action: Ask, gpus: frozenset[str]) -> None:
        trees = self._trees(case)
        case.asked = Asked(tuple(case.job.members), trees, action.because)
        touched = Affected(gpus, self._touched(trees))
        self._taken.append(Taken(Proposal(action, touched), self._world.clock.monotonic_s()))
        outcome = self._hands(trees).ask(action.signal)
        self._count(action, "done" if outcome.ok else "failed")
        self._journal.outcome(case.subject, in_words(action), outcome.words, case.keys)

    def _kill(self, case: RuleState, action: Kill) -> None:
        outcome = self._hands(self._trees(case)).insist()
        self._count(action, "done" if outcome.ok else "failed")
        self._journal.outcome(case.subject, in_words(action), outcome.words, case.keys)
        if not self.is_dry_run:
            case.survivors_due_s = self._world.clock.monotonic_s() + _DIES_WITHIN_S

    def _trees(self, case: RuleState) -> tuple[JobTree, ...]:
        """Those who were asked; before that the holders, without those who are below another."""
        if case.asked is not None:
            return case.asked.trees
        proc, pids = self._world.proc, case.job.pids
        tops = [process for process in case.job.members if pids.isdisjoint(proc.ancestors(process.pid))]
        now, user, root = self._world.clock.monotonic_s, case.job.user, user_name(0)

        def is_anothers(row: ProcessRow) -> bool:
            owner = proc.user(row.pid)
            return not isinstance(owner, Unknown) and owner != user != root

        return tuple(JobTree(self._table, process, now, spare=is_anothers) for process in tops)

    def _touched(self, trees: Sequence[JobTree]) -> tuple[AffectedProcess, ...]:
        return tuple(each for tree in trees for each in affected_processes(self._world, tree, watcher=False))

    def _hands(self, trees: tuple[JobTree, ...]) -> JobActions:
        if self.is_dry_run:
            return DryRunJobActions()
        helpers = Helpers(self._world.clock.monotonic_s)
        return SystemJobActions(trees, helpers, self._world, self._tell, kill_for_s=0.0)

    def _not_ours_to_touch(self, job: GpuJob, processes: Sequence[AffectedProcess]) -> str | None:
        never = untouchable(self._world.proc)
        for process in processes:
            pid = process.pid
            if isinstance(process.birth, Unknown) and self._world.proc.stat(pid) is None:
                continue  # it has ended since, as children do all the time
            if isinstance(process.birth, Unknown) or isinstance(process.user, Unknown):
                return f"whose pid {pid} is cannot be told"
            if process.user != job.user:
                return f"pid {pid} below it is {process.user}'s, not {job.user}'s"
            if pid in never or self._holding.is_a_fallow(pid):
                return f"pid {pid} is fallow's own, or fallow lives by it"
            handle = Handle.open(self._world.proc, Process(pid, process.birth), never)
            if handle is not None:
                with handle:
                    if not handle.may_signal():
                        return f"pid {pid} is {process.user}'s, and signalling it needs root"
        return None

    def _arbitrated(
        self, actions: Sequence[JobAction], touched: Affected, now_s: float, protections: Sequence[Protection]
    ) -> str | None:
        self._taken = [taken for taken in self._taken if now_s - taken.at_s < self._limit.per_s]
        rulings = arbitrate(
            [Proposal(action, touched) for action in actions],
            at_s=now_s,
            wall_s=self._world.clock.wall_s(),
            protections=protections,
            protect_rules=self._protect_rules,
            recent=self._taken,
            limit=self._limit,
        )
        return next((ruling.refused for ruling in rulings if ruling.refused is not None), None)

    def _stacks_are_written(self, case: RuleState, actions: Sequence[JobAction], pids: Sequence[int]) -> bool:
        """Before it is asked: a job that has been may be gone before they are read."""
        if self.is_dry_run or not case.rule.dump_stacks or not any(isinstance(action, Ask) for action in actions):
            return True
        first = case.job.first
        writing = self._stacks.get(first)
        if writing is None:
            self._stacks[first] = StackWriting(self._world, pids, f"{first.pid}-{first.birth}")
            return False
        if not writing.is_over:
            return False
        self._tell(writing.sentence)
        self._journal.outcome(case.subject, "write its stacks", writing.sentence, case.keys)
        del self._stacks[first]
        return True

    def _terminals_of(self, user: str) -> list[str]:
        people = self._terminals.people()
        theirs = [] if isinstance(people, Unknown) else [each.terminal for each in people if each.user == user]
        return [f"/dev/{terminal}" for terminal in theirs if terminal is not None]

    def _count(self, action: JobAction, result: str) -> None:
        self._tally.action(
            type(action).__name__.lower(), "dry_run" if self.is_dry_run and result == "done" else result
        )

    def _say(self, case: RuleState, sentence: str) -> None:
        would = "dry run: " if self.is_dry_run else ""
        self._tell(f"rule {case.rule.name}: {would}{case.subject} {sentence}")

    def _note(self, event: NoticeEvent, case: RuleState, sentence: str) -> None:
        first = case.job.first
        self._notices.note(Notice(event, f"pid:{first.pid}@{first.birth}", f"{case.subject} {sentence}"))


def _your(job: GpuJob) -> str:
    return f"your job {job.name}"
