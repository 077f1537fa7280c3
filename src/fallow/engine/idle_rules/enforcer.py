"""Enforce the idle rules of the config on other people's jobs, once a tick.

Each rule judges every job that it covers (see gpu_jobs.py) as `fallow run --idle-timeout` judges its own, with the
same driver (engine/jobs/warn_ask_kill.py). A rule only reports unless it says `act = true`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial

from fallow.core.board import Counting
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Snapshot
from fallow.core.job import Job, JobActivity
from fallow.core.protections import Protection
from fallow.core.selection import select
from fallow.core.value import replace
from fallow.engine.conditions.job import JobConditions
from fallow.engine.config.rules import Idle, Protect
from fallow.engine.history.run import Run
from fallow.engine.idle_rules.actions import ActionsOnProcesses
from fallow.engine.idle_rules.gpu_jobs import JobFinder, card_name
from fallow.engine.idle_rules.line import Line
from fallow.engine.idle_rules.returned_jobs import ReturnedJobs
from fallow.engine.jobs.job_state import JobRule, JobState
from fallow.engine.jobs.known_groups import KnownGroups
from fallow.engine.jobs.ports import ActionsFor, BeginConditions, JobCondition, JobSource
from fallow.engine.jobs.warn_ask_kill import WarnAskKill
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.owners.known import KnownOwners
from fallow.engine.park.parking import Parking
from fallow.policies.arbiter import command_fits
from fallow.readers.terminals import Terminals


class RuleEnforcer:
    """All rules, and all jobs that they judge."""

    def __init__(
        self,
        run: Run,
        source: JobSource,
        actions_for: ActionsFor,
        begin_conditions: Callable[[Sequence[str]], Sequence[JobCondition]] = lambda _: (),
        parking: Parking | None = None,
    ) -> None:
        """`begin_conditions` makes the conditions of one job, as the rules have them. `change` gives it rules."""
        self._run = run
        self._source = source
        self._parking = parking
        self._begin_conditions = begin_conditions
        self._driver = WarnAskKill(run, actions_for, parking)
        self._rules: list[tuple[Idle, JobRule]] = []
        self._states: dict[tuple[str, Hashable], JobState] = {}
        self._gpus: dict[str, set[str]] = {}
        self._labels: dict[str, str] = {}
        self._not_judged: list[tuple[str, Job, str]] = []
        self._reported: set[str] = set()
        self._returned = ReturnedJobs(run)
        self._line = Line(run.world)

    def change(self, rules: Sequence[Idle], protect: Protect, every_s: float) -> None:
        """Apply a config. A rule that has not changed keeps its jobs; the warnings of any other are taken back."""
        groups = KnownGroups(protect.groups, self._run.world.clock, self._run.say)
        self._driver.change(replace(protect.protect_rules, groups_of=groups.of), protect.limit)
        before, now = {rule.name: rule for rule, _ in self._rules}, {rule.name: rule for rule in rules}
        gap_s, begin = every_s * MISSED_LOOKS, self._begin_conditions
        self._rules = [(rule, _job_rule(rule, gap_s, partial(begin, rule.unless))) for rule in rules]
        job_rules = {job_rule.name: job_rule for _, job_rule in self._rules}
        for (name, key), state in list(self._states.items()):
            if now.get(name) == before[name]:
                state.rule = replace(job_rules[name], acts=state.rule.acts)
                continue
            if state.warned or state.asked is not None:
                self._driver.cancel_warning(state, "config_changed")
            del self._states[name, key]
        self._gpus = {name: uuids for name, uuids in self._gpus.items() if now.get(name) == before[name]}
        self._reported.clear()

    def end(self) -> None:
        """Take all warnings back: nothing follows any more."""
        for state in self._states.values():
            if state.warned:
                self._driver.cancel_warning(state, "fallow_ends")
        self._states.clear()

    @property
    def counting(self) -> tuple[Counting, ...]:
        """Return what each rule counts of each job, and which jobs on its GPUs it does not judge."""
        counted = (each for state in self._states.values() for each in state.counting())
        return (*counted, *(_uncounted(rule, job, why) for rule, job, why in self._not_judged))

    def turn(self, snapshot: Snapshot) -> None:
        """Judge all jobs by this snapshot, read at Depth.ALL."""
        parking = self._parking
        self._not_judged = []
        if parking is not None:
            parking.turn(snapshot)
        if not self._rules:
            return
        found = self._source.jobs(snapshot)
        jobs = {job.key: job for job in found if parking is None or not parking.holds(job)}
        if not jobs and not self._states:
            return
        self._line.begin(snapshot)
        self._labels.update((card_name(gpu), gpu.label) for gpu in snapshot.gpus)
        protections = self._run.world.protections.active(self._run.world.clock.wall_s(), self._run.say)
        for (name, key), state in list(self._states.items()):
            if key not in jobs:
                if state.asked is not None:
                    if not self._driver.is_over(state, None):
                        continue  # its owner has not answered yet
                    self._returned.stopped(state.job)
                del self._states[name, key]
        rules = [(rule, job_rule, self._gpus_of(rule, snapshot)) for rule, job_rule in self._rules]
        for job in jobs.values():
            for rule, job_rule, uuids in rules:
                judged = self._state_of(rule, job_rule, job, uuids)
                if judged is not None:
                    self._judge(judged, job, snapshot, protections)

    def _state_of(self, rule: Idle, job_rule: JobRule, job: Job, uuids: set[str]) -> JobState | None:
        """Return the state of the job under the rule; None if the rule does not cover it or another one stops it."""
        state = self._states.get((rule.name, job.key))
        if state is not None and (state.asked is not None or state.parking is not None):
            return state
        why_not = why_not_covered(rule, job, uuids, self._labels)
        if why_not:
            self._not_judged.append((rule.name, job, why_not))
        is_asked = self._is_asked(job.key)
        if why_not is None and not is_asked:
            return state or self._states.setdefault((rule.name, job.key), self._begun(job_rule, job))
        if state is not None:
            if state.warned and not is_asked:
                self._driver.cancel_warning(state, "not_covered")
            del self._states[rule.name, job.key]
        return None

    def _begun(self, job_rule: JobRule, job: Job) -> JobState:
        """Return the state of a job that was not judged before."""
        if self._returned.has_returned(job):
            job_rule = replace(job_rule, acts=False)
        return JobState(job_rule, job, waits=self._line.waits_for)

    def _judge(self, state: JobState, job: Job, snapshot: Snapshot, protections: Sequence[Protection]) -> None:
        was_warned = state.warned
        if state.follow(job) and was_warned:
            self._driver.cancel_warning(state, "joined")
        if not self._is_over(state, snapshot):
            self._driver.look(state, snapshot, protections)

    def _is_over(self, state: JobState, snapshot: Snapshot) -> bool:
        """Return whether a job that was asked needs no more: it is gone, or in a dry run it works again."""
        if state.asked is None:
            return False
        works = self._run.dry_run and state.finding(snapshot).activity is JobActivity.BUSY
        if works or self._driver.is_over(state, state.job):
            if not works:
                self._returned.stopped(state.job)
            del self._states[state.rule.name, state.job.key]
            return True
        return state.killed

    def _is_asked(self, key: Hashable) -> bool:
        states = (state for (_, each), state in self._states.items() if each == key)
        return any(state.asked is not None or state.parking is not None for state in states)

    def _gpus_of(self, rule: Idle, snapshot: Snapshot) -> set[str]:
        """Return the GPUs of the rule, also those that cannot be read now."""
        known = self._gpus.setdefault(rule.name, set())
        try:
            known.update(card_name(gpu) for gpu in select(rule.gpus, snapshot.gpus))
        except WrongUsage as error:
            if rule.name not in self._reported:
                self._reported.add(rule.name)
                self._run.say(f"rule {rule.name}: {error}")
        return known


class ProcessRules(RuleEnforcer):
    """The rules for the processes of this machine."""

    def __init__(
        self,
        run: Run,
        owners: KnownOwners,
        conditions: JobConditions,
        parking: Parking,
        terminals: Terminals | None = None,
    ) -> None:
        self._finder = JobFinder(run.world, owners)
        terminals = run.world.terminals() if terminals is None else terminals
        actions = ActionsOnProcesses(run, self._finder, owners, terminals)
        super().__init__(run, self._finder, actions, conditions.begin, parking)

    def change(self, rules: Sequence[Idle], protect: Protect, every_s: float) -> None:
        """Apply a config, as far as it can be applied here."""
        world = self._run.world
        if rules and world.simulated is None and world.proc.in_pid_namespace_of_its_own():
            why = "inside a container the driver's pids are not those seen here, so the idle rules do nothing"
            self._run.say(why)
            rules = ()
        if self._parking is not None and any(rule.act and "park" in rule.action for rule in rules):
            self._parking.open()
        self._finder.opt_outs = protect.opt_outs
        super().change(rules, protect, every_s)


def why_not_covered(rule: Idle, job: Job, uuids: set[str], labels: Mapping[str, str]) -> str | None:
    """Return why the rule is not about this job; None if it is about all its GPUs, users and processes.

    Empty if it is about none of its GPUs, so that nobody wonders.
    """
    elsewhere = [labels.get(uuid, uuid) for uuid in job.uuids if uuid not in uuids]
    if len(elsewhere) == len(job.uuids):
        return "" if elsewhere else None
    if elsewhere:
        return f"it also holds GPU {', '.join(elsewhere)}, which the rule is not about"
    if rule.users and not job.users.issubset(rule.users):
        return f"the rule is about {_listed('user', rule.users)}"
    fits = all(any(command_fits(command, pattern) for pattern in rule.commands) for command in job.members.values())
    return None if fits or not rule.commands else f"the rule is about {_listed('command', rule.commands)}"


def _job_rule(rule: Idle, longest_gap_s: float, begin: BeginConditions) -> JobRule:
    idle, stuck = rule.idle_rules(longest_gap_s), rule.stuck_rules(longest_gap_s)
    return JobRule(
        idle,
        stuck,
        rule.idle_below,
        rule.name,
        rule.act,
        rule.before_ask,
        rule.warn_signal,
        begin_conditions=begin,
        parks="park" in rule.action,
        stops="stop" in rule.action,
    )


def _uncounted(rule: str, job: Job, why: str) -> Counting:
    return Counting(rule, job.subject, job.uuids, job.process_keys, "", 0.0, "nothing", 0.0, not_judged=why)


def _listed(kind: str, names: Sequence[str]) -> str:
    return f"the {kind}{'' if len(names) == 1 else 's'} {', '.join(names)}"
