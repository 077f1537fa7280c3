"""Decide what a rule may do to a job of a cluster: count its idleness, hold it back, leave it alone, or let it act.

A job is on the ladder of `policies/ladder.py`, with these differences, all of them in favour of the job:

    - a look in which anything about the job is unknown leads to nothing, not even from the question to the kill;
    - a job that works after it was asked is not killed: the stop is taken back, and counting begins at zero;
    - time counts only as far as the metrics covered it, whatever the clock says.

It has no states of its own. One rule counts for a job: the first of the config that covers it.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import assert_never

from fallow.core.actions import Ask, CancelWarning, JobAction, Kill
from fallow.core.cluster import ClusterJob, Engine, PodGpus
from fallow.core.cluster_names import concerns
from fallow.core.job import IDLE_BELOW, JobActivity
from fallow.core.protections import (
    ClusterPart,
    Everything,
    OneClusterJob,
    OneGpu,
    OneProcess,
    OneUser,
    Protection,
    Target,
    is_over,
)
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.core.witnessed_time import witnessed_s
from fallow.policies.arbiter import ProtectRules, RateLimit
from fallow.policies.cluster_use import JobUse
from fallow.policies.idle import When
from fallow.policies.ladder import Ladder, LadderRules, Rung, Sign, climb

_SIGNS = {JobActivity.IDLE: Sign.FAULT, JobActivity.BUSY: Sign.FINE, JobActivity.UNKNOWN: Sign.UNKNOWN}
_OPERATORS = frozenset(("root",))
_COVERED_SLACK_S = 1.0  # between the answer of the metrics and the clock


class Interactive(StrEnum):
    """How a rule treats jobs before which a person sits."""

    SAME = "same"
    FIRST = "first"
    """They come before the others, where not all may be stopped at once."""
    ONLY = "only"
    NEVER = "never"


@value
class ClusterLadder(LadderRules):
    """How long a job may be idle, and how it is warned and asked. A late warning gives the full notice too."""

    fault = "idle"

    @property
    def is_mostly_late(self) -> bool:
        """Return True: a warning may wait for the first hours to be over, or for a job that wants the GPUs."""
        return True


@value
class ClusterRule:
    """One rule about the jobs of a cluster."""

    name: str
    idle: ClusterLadder
    acts: bool = False
    longest_gap_s: float = 90.0
    idle_below: float = IDLE_BELOW
    requeues: bool = False
    when: When = When.ALWAYS
    not_before_s: float = 0.0
    interactive: Interactive = Interactive.SAME
    interactive_not_before_s: float | None = None
    partitions: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    limit: RateLimit = RateLimit(10, 3600.0)

    def covers(self, job: ClusterJob) -> bool:
        """Return whether the rule is about this job. What the engine does not say of it fits no list."""
        if job.interactive and self.interactive is Interactive.NEVER:
            return False
        if not job.interactive and self.interactive is Interactive.ONLY:
            return False
        labels = job.labels
        return (
            _fits(labels.get("partition"), self.partitions)
            and _fits(labels.get("account"), self.accounts)
            and _fits(labels.get("qos"), self.qos)
            and _fits(labels.get("namespace"), self.namespaces)
            and _fits(job.user or None, self.users)
            and _fits(job.name, self.names)
        )


@value
class JobCount:
    """What is remembered of one job under its rule, from one look to the next."""

    at_s: float | None = None
    ladder: Ladder = Ladder()
    known_s: float = 0.0
    """For how long it was witnessed what all its GPUs did."""
    most_used: int = 0
    """How many of its GPUs worked, or may have, at once at most."""

    @property
    def idle_s(self) -> float:
        """Return the witnessed seconds for which all its GPUs were idle."""
        return self.ladder.fault_s

    @property
    def is_asked(self) -> bool:
        """Return whether it was asked to end, or what was left of it was ended."""
        return self.ladder.rung in (Rung.ASKED, Rung.KILLED)


def not_seen(before: JobCount, at_s: float) -> JobCount:
    """Return the count after a look in which nothing could be told: all stays, and the time does not count."""
    return replace(before, at_s=at_s)


def count(
    before: JobCount,
    at_s: float,
    covers_s: float,
    use: JobUse,
    rule: ClusterRule,
    alone: Reason | None = None,
    held_back: Reason | Unknown | None = None,
) -> tuple[JobCount, tuple[JobAction, ...]]:
    """Return the count after a look whose readings cover the last `covers_s`, and what the rule proposes."""
    longest_s = min(rule.longest_gap_s, covers_s + _COVERED_SLACK_S)
    passed_s = witnessed_s(before.at_s, at_s, longest_s)
    sign = _SIGNS[use.activity]
    known_s = before.known_s + (0.0 if sign is Sign.UNKNOWN else passed_s)
    ladder, actions = _climbed(before.ladder, passed_s, sign, use.reason, rule, alone, held_back)
    most_used = max(before.most_used, use.may_be_used)
    return JobCount(at_s, ladder, known_s, most_used), actions


def _climbed(
    ladder: Ladder,
    passed_s: float,
    sign: Sign,
    found: Reason,
    rule: ClusterRule,
    alone: Reason | None,
    held_back: Reason | Unknown | None,
) -> tuple[Ladder, tuple[JobAction, ...]]:
    if ladder.rung is Rung.ASKED and alone is None:
        if sign is Sign.FINE:
            return Ladder(), (CancelWarning(Reason("works", readings=found)),)
        if sign is Sign.UNKNOWN:
            passed_s = 0.0
    # A rule that only reports has nothing to warn of: it reports when the time is full.
    rules = rule.idle if rule.acts else replace(rule.idle, warn_before_s=0.0)
    after, actions = climb(ladder, passed_s, sign, found, rules, alone, held_back)
    if not rule.acts and any(isinstance(action, Ask) for action in actions):
        return replace(ladder, fault_s=after.fault_s), ()
    return after, tuple(
        replace(action, requeues=rule.requeues) if isinstance(action, Ask | Kill) else action for action in actions
    )


def next_action(counted: JobCount, rule: ClusterRule) -> tuple[str, float]:
    """Return what follows if the job stays idle (report, warn, ask, kill or nothing), and in how many seconds."""
    if rule.acts:
        return counted.ladder.next_action(rule.idle)
    if counted.ladder.rung is not Rung.CALM:
        return "nothing", 0.0
    return "report", max(0.0, rule.idle.timeout_s - counted.ladder.fault_s)


def held_back_by(
    rule: ClusterRule, job: ClusterJob, wall_s: float, pending_gpus: int | Unknown
) -> Reason | Unknown | None:
    """Return why nothing begins although the job is idle; Unknown if that cannot be told."""
    after_s = rule.not_before_s
    if job.interactive and rule.interactive_not_before_s is not None:
        after_s = rule.interactive_not_before_s
    if after_s > 0:
        if isinstance(job.started_wall_s, Unknown):
            return Unknown(f"when it started is not known: {job.started_wall_s.why}")
        ago_s = wall_s - job.started_wall_s
        if not ago_s >= after_s:
            return Reason("first_hours", ago_s=max(0.0, ago_s), after_s=after_s)
    if rule.when is When.WANTED:
        if isinstance(pending_gpus, Unknown):
            return pending_gpus
        if pending_gpus <= 0:
            return Reason("nobody_waits")
    return None


def left_alone(
    job: ClusterJob,
    uuids: frozenset[str],
    protections: Iterable[Protection],
    protect: ProtectRules,
    wall_s: float,
    operators: frozenset[str] = _OPERATORS,
) -> Reason | None:
    """Return why the job must be left alone, or None. `uuids` are those of its GPUs that are known."""
    if job.opt_out is not None:
        return job.opt_out
    found = [
        each
        for each in protections
        if not is_over(each, wall_s) and covers(each.target, job, uuids) and may_protect(each, job, operators)
    ]
    if found:
        longest = max(found, key=lambda protection: protection.until_wall_s)
        return Reason(
            "protected",
            protection=str(longest),
            id=longest.id,
            by=longest.by_user,
            target=str(longest.target),
        )
    return _protected_for_good(job, protect)


def may_protect(protection: Protection, job: ClusterJob, operators: frozenset[str] = _OPERATORS) -> bool:
    """Return whether this protection counts for the job: of its own user, root, and who runs the daemon it does.

    Of a job whose user is not known it counts for anybody who names the job itself. What fallow protects itself,
    because protections cannot be read, counts always.
    """
    if protection.id <= 0 or protection.by_user in operators or protection.by_user == job.user:
        return True
    names_it = isinstance(protection.target, OneClusterJob) or (
        isinstance(protection.target, ClusterPart) and protection.target.kind == "pod"
    )
    return not job.user and names_it


def covers(target: Target, job: ClusterJob, uuids: frozenset[str]) -> bool:
    """Return whether a protection of the target covers the job. In doubt it does."""
    match target:
        case Everything():
            return True
        case OneGpu(uuid):
            return uuid in uuids
        case OneProcess():
            return False
        case OneUser(name):
            return _may_be(job, name)
        case OneClusterJob() | ClusterPart():
            return concerns(target, job)
    assert_never(target)


def too_many(taken_s: Sequence[float], at_s: float, limit: RateLimit) -> Reason | None:
    """Return why no further job is asked now: the rule has asked so many in the time to which its limit applies."""
    lately = [each for each in taken_s if at_s - each < limit.per_s]
    if len(lately) < limit.most:
        return None
    return Reason("rate_limit", count=len(lately), per_s=limit.per_s, most=limit.most)


def has_joined(before: ClusterJob, now: ClusterJob) -> bool:
    """Return whether the job has GPUs that it did not have, or was started again: then counting begins at zero.

    A pod is never started again, and the start of a job is that of its latest pod, which may end before the others.
    """
    if before.places != now.places and not set(now.places) <= set(before.places):
        return True
    if any(isinstance(place, PodGpus) for place in now.places):
        return False
    began, begins = before.started_wall_s, now.started_wall_s
    if isinstance(began, Unknown) or isinstance(begins, Unknown):
        return isinstance(began, Unknown) is not isinstance(begins, Unknown)
    return began != begins


def was_started_again(before: ClusterJob, now: ClusterJob) -> bool:
    """Return whether what ran before has ended, and the job runs again. What is not known is no end."""
    pods = {place for place in before.places if isinstance(place, PodGpus)}
    if pods:
        return pods.isdisjoint(now.places)
    began, begins = before.started_wall_s, now.started_wall_s
    return not isinstance(began, Unknown) and not isinstance(begins, Unknown) and began != begins


def why_another(judged: ClusterJob, now: ClusterJob | None) -> Reason | None:
    """Return why the job must not be touched after the engine was asked again; None if it is the same."""
    if now is None:
        return Reason("job_changed", what="the engine does not list it any more")
    if has_joined(judged, now):
        return Reason("job_changed", what="it was started again, or has other GPUs")
    if now.user != judged.user or now.engine is not judged.engine:
        return Reason("job_changed", what="it has another user")
    if now.idle_for_s is not None and now.idle_for_s > (judged.idle_for_s or 0.0):
        return Reason("may_be_idle", for_s=now.idle_for_s)
    return now.opt_out


def _protected_for_good(job: ClusterJob, protect: ProtectRules) -> Reason | None:
    for user in sorted(protect.users):
        if _may_be(job, user):
            return Reason("cluster_user", user=user)
    if protect.groups and (job.user or job.engine is Engine.SLURM):
        why = Unknown("it has no user") if not job.user else _groups(job.user, protect.groups_of)
        if isinstance(why, Unknown):
            return Reason("cluster_groups_unknown", user=job.user or "its user", why=why.why)
        if why:
            return Reason("cluster_group", user=job.user, group=min(why))
    for pattern in protect.commands:
        if fnmatchcase(job.name, pattern):
            return Reason("cluster_name", name=job.name, pattern=pattern)
    return None


def _groups(user: str, groups_of: Callable[[str], frozenset[str] | Unknown] | None) -> frozenset[str] | Unknown:
    return Unknown("nobody looks them up") if groups_of is None else groups_of(user)


def _may_be(job: ClusterJob, user: str) -> bool:
    """Return whether the job may be the user's. Kubernetes knows no users, so nothing of it is any user's."""
    return job.user == user or (not job.user and job.engine is Engine.SLURM)


def _fits(text: str | None, patterns: tuple[str, ...]) -> bool:
    return not patterns or (text is not None and any(fnmatchcase(text, pattern) for pattern in patterns))
