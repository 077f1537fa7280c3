"""The idle rules at work on people's own processes: look, judge, act, record, once a tick.

Each rule of the config judges every job that it covers (see holding) as `fallow run --idle-timeout` judges its own,
and only reports unless it says `act = true`. Then the people of the job are warned, its holders and all below them
are asked, and at last killed, each in its own time (see patrol_hands).
"""

from collections.abc import Callable, Mapping, Sequence

from fallow.core.actions import CancelWarning, Kill, Warn
from fallow.core.board import Counting
from fallow.core.errors import WrongUsage
from fallow.core.findings import Verdict
from fallow.core.gpu import Snapshot
from fallow.core.notices import Notice, NoticeEvent
from fallow.core.protections import (
    Affected,
    Protection,
    protection_on,
    with_its_end,
)
from fallow.core.reservations import NOTHING_READ, Reservations
from fallow.core.selection import select
from fallow.engine.config.rules import Idle
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import Journal
from fallow.engine.idle_rules.actions import RuleActions
from fallow.engine.idle_rules.gpu_jobs import (
    GpuJob,
    JobFinder,
    JobKey,
    card_name,
)
from fallow.engine.idle_rules.rule_state import Policy, Proposal, RuleState
from fallow.engine.jobs.protection_scope import uuids_with_cards
from fallow.engine.machine.world import World
from fallow.engine.notify.notifier import Notifier
from fallow.policies import stuck
from fallow.policies.arbiter import (
    ProtectRules,
    RateLimit,
    command_fits,
    leave_alone,
)
from fallow.readers.terminals import Terminals

_MISSED_LOOKS = 3


class RuleEnforcer:
    """All rules, and all jobs that they look at."""

    def __init__(
        self,
        world: World,
        rules: Sequence[Idle],
        protect_rules: ProtectRules,
        limit: RateLimit,
        journal: Journal,
        tell: Callable[[str], None],
        notices: Notifier,
        *,
        dry_run: bool = False,
        every_s: float = 1.0,
        terminals: Terminals | None = None,
        tally: Tally | None = None,
    ) -> None:
        self._world = world
        self._rules = rules
        self._protect_rules = protect_rules
        self._journal = journal
        self._tell = tell
        self._notices = notices
        self._gap_s = every_s * _MISSED_LOOKS
        self._holding = JobFinder(world)
        owners = terminals if terminals is not None else world.terminals()
        self._hands = RuleActions(
            world,
            self._holding,
            protect_rules,
            limit,
            journal,
            tell,
            notices,
            owners,
            dry_run=dry_run,
            tally=Tally() if tally is None else tally,
        )
        self._cases: dict[tuple[str, JobKey], RuleState] = {}
        self._cards: dict[str, set[str]] = {}
        self._rest_w = journal.rest_power_w() if any(rule.stuck_for is not None for rule in rules) else {}
        self._told: set[str] = set()
        self._blind = bool(rules) and world.simulated is None and world.proc.in_pid_namespace_of_its_own()
        if self._blind:
            tell("inside a container the driver's pids are not those seen here, so the idle rules do nothing")

    @property
    def counting(self) -> tuple[Counting, ...]:
        """What each rule counts of each job."""
        return tuple(each for case in self._cases.values() for each in case.counting())

    def turn(self, snapshot: Snapshot, promised: Mapping[str, Reservations] = NOTHING_READ) -> None:
        """One tick, with what was seen at it, at Depth.WATCH at least, and what was read of claims, by UUID."""
        if self._blind or not self._rules:
            return
        jobs = {job.key: job for job in self._holding.jobs(snapshot, promised)}
        if not jobs and not self._cases:
            return
        protections = self._world.protections.active(self._world.clock.wall_s(), self._tell)
        for (name, key), case in list(self._cases.items()):
            if key not in jobs:
                self._gone(name, case)
        for rule in self._rules:
            cards = self._cards_of(rule, snapshot)
            for job in jobs.values():
                self._look(rule, job, cards, snapshot, protections)

    def _look(
        self, rule: Idle, job: GpuJob, cards: set[str], snapshot: Snapshot, protections: Sequence[Protection]
    ) -> None:
        case = self._cases.get((rule.name, job.key))
        if case is None or case.asked is None:
            if not _covers(rule, job, cards) or self._is_asked(job.key):
                if case is not None:
                    self._leave(case, "the rule no longer covers it")
                return
            if case is None:
                case = self._cases[rule.name, job.key] = RuleState(rule, job, self._gap_s)
        was_warned = case.warned
        if case.follow(job) and was_warned:
            self._cancel_warning(case, "somebody has joined it who was not warned")
        if case.asked is not None and self._is_over(case, snapshot):
            return
        self._judge(case, snapshot, protections)

    def _judge(self, case: RuleState, snapshot: Snapshot, protections: Sequence[Protection]) -> None:
        uuids = {*case.job.uuids, *case.job.doubtful}
        gpus = uuids_with_cards([gpu for gpu in snapshot.gpus if card_name(gpu) in uuids]) | uuids
        touched = Affected(gpus, case.job.touched)
        wall_s = self._world.clock.wall_s()
        alone = leave_alone(touched, wall_s, protections, self._protect_rules)
        protection = protection_on(touched, protections, wall_s)
        case.left_alone = alone if protection is None else with_its_end(protection, wall_s)
        for lane in Policy:
            decided = case.decide(lane, snapshot, alone, self._rest_w)
            if decided is None:
                continue
            if case.rule.act and not self._hands.allow(case, decided.actions, gpus, protections):
                case.refuse(lane, snapshot.at_s)
                continue
            self._learn(decided)
            case.take(decided)
            self._report(case, decided)
            if case.rule.act:
                self._record(case, decided)
                self._hands.act(case, decided.actions, gpus)

    def _report(self, case: RuleState, decided: Proposal) -> None:
        """What a rule that only reports says, and what every rule says of a hang."""
        verdict = decided.verdict
        if verdict is None:
            return
        if decided.lane is Policy.STUCK:
            hangs = verdict.finding == "stuck"
            if hangs and not case.hang_told:
                self._found(case, "stuck", verdict.because, verdict)
            case.hang_told = hangs or (case.hang_told and verdict.finding != "clear")
        elif not case.rule.act:
            for action in decided.actions:
                if isinstance(action, Warn):
                    self._found(case, "idle", action.because, verdict)
                elif isinstance(action, CancelWarning):
                    self._journal.verdict(Verdict(case.subject, "goes on", action.because), case.keys)

    def _found(self, case: RuleState, event: NoticeEvent, because: str, verdict: Verdict) -> None:
        self._journal.verdict(Verdict(case.subject, event, because, verdict.evidence), case.keys)
        self._tell(f"rule {case.rule.name}: {case.subject} is {because}")
        first = case.job.first
        self._notices.note(Notice(event, f"pid:{first.pid}@{first.birth}", f"{case.subject} is {because}"))

    def _record(self, case: RuleState, decided: Proposal) -> None:
        """The readings behind a deed. What a job does once it was asked may be its way of saving its work."""
        if not decided.actions or any(isinstance(action, Kill) for action in decided.actions):
            return
        if decided.verdict is not None:
            self._journal.verdict(decided.verdict, case.keys)

    def _learn(self, decided: Proposal) -> None:
        """What cards draw at rest is learned for all, and for the next time."""
        if not isinstance(decided.state, stuck.State):
            return
        for uuid, watts in decided.state.rest_w.items():
            if self._rest_w.get(uuid) != watts:
                self._rest_w[uuid] = watts
                self._journal.remember_rest_power(uuid, watts)

    def _is_over(self, case: RuleState, snapshot: Snapshot) -> bool:
        """Whether a job that was asked needs no more: it is gone; or in a dry run it works again."""
        over = case.asked is not None and self._hands.follow_up(case, case.asked, case.job.members)
        if over or (self._hands.is_dry_run and case.works(snapshot)):
            del self._cases[case.rule.name, case.job.key]
            return True
        return case.killed

    def _gone(self, name: str, case: RuleState) -> None:
        """No process of the job holds a card any more."""
        if case.asked is not None:
            self._hands.follow_up(case, case.asked, ())
        del self._cases[name, case.job.key]

    def _leave(self, case: RuleState, why: str) -> None:
        if case.warned:
            self._cancel_warning(case, why)
        del self._cases[case.rule.name, case.job.key]

    def _cancel_warning(self, case: RuleState, why: str) -> None:
        self._journal.action(case.subject, "take the warning back", why, case.keys)
        self._hands.cancel_warning(case, why)

    def _is_asked(self, key: JobKey) -> bool:
        return any(case.asked is not None for (_, each), case in self._cases.items() if each == key)

    def _cards_of(self, rule: Idle, snapshot: Snapshot) -> set[str]:
        """The cards of the rule; one that cannot be read now is still among them."""
        known = self._cards.setdefault(rule.name, set())
        try:
            known.update(card_name(gpu) for gpu in select(rule.gpus, snapshot.gpus))
        except WrongUsage as error:
            if rule.name not in self._told:
                self._told.add(rule.name)
                self._tell(f"rule {rule.name}: {error}")
        return known


def _covers(rule: Idle, job: GpuJob, cards: set[str]) -> bool:
    """Whether the rule is about this job: its user, all its holders, and one of its cards."""
    if rule.users and job.user not in rule.users:
        return False
    if cards.isdisjoint(job.uuids):
        return False
    return not rule.commands or all(
        any(command_fits(command, pattern) for pattern in rule.commands) for command in job.members.values()
    )
