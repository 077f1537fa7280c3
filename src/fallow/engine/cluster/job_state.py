"""What the cluster's loop remembers of one job: how its rule counts it, and what was reported of it."""

from math import inf

from fallow.core.cluster import ClusterJob, ClusterJobView
from fallow.core.findings import Evidence, Verdict, gpu_key
from fallow.core.job import JobActivity
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.policies.cluster_gate import ClusterLadder, ClusterRule, JobCount, has_joined, next_action
from fallow.policies.cluster_use import JobUse, could_do_with

_MOST_KEYS = 64
_MOST_EVIDENCE = 16
_SEEN_FOR_S = 3600.0
NO_RULE = ClusterRule("", idle=ClusterLadder(inf))
"""What counts for a background job, and one that no rule covers: its idleness is shown, and nothing follows."""


class ClusterJobState:
    """A job under the rule that counts for it. It is changed by the cluster's thread alone."""

    def __init__(self, job: ClusterJob, rule: ClusterRule, forced: Reason | None) -> None:
        """`forced` is why the rule only reports this job, though it acts on others."""
        self.job = job
        self.rule = rule
        self.forced = forced
        self.count = JobCount()
        self.use: JobUse | Unknown = Unknown("it was not judged yet", asked=False)
        self.alone: Reason | None = None
        self.refusal: Reason | None = None
        self.retry_at_s = 0.0
        """Until then what was refused or failed is not tried again."""
        self.warned: Reason | None = None
        """Why its people were warned, while that is so."""
        self.asked: Reason | None = None
        """Why it was asked to end, if it was."""
        self.told_more = False
        self.is_background = False
        """Whether its GPUs are available to others, because its partition is one whose jobs give way."""

    @property
    def effective(self) -> ClusterRule:
        """Return the rule as it counts for this job: with the time that its people gave it, or only reporting it."""
        rule, idle_for_s = self.rule, self.job.idle_for_s
        if idle_for_s is not None:
            rule = replace(rule, idle=rule.idle.allowing(idle_for_s))
        return replace(rule, acts=False) if rule.acts and self.forced is not None else rule

    def follow(self, job: ClusterJob, rule: ClusterRule, forced: Reason | None) -> bool:
        """Take the job as it is now; return whether counting begins at zero, though its people were warned."""
        was_warned = self.warned is not None
        again = has_joined(self.job, job) or rule != self.rule
        self.job, self.forced = job, forced
        if not again:
            return False
        self.rule = rule
        self.count = JobCount()
        self.asked = self.refusal = None
        self.told_more = False
        return was_warned

    @property
    def keys(self) -> list[str]:
        """Return the keys under which the journal keeps events about the job."""
        readings = () if isinstance(self.use, Unknown) else self.use.readings
        return [self.job.key, *(gpu_key(reading.key.uuid) for reading in readings[:_MOST_KEYS])]

    @property
    def uuids(self) -> frozenset[str]:
        """Return the UUIDs of its GPUs, as far as the metrics have them."""
        return (
            frozenset() if isinstance(self.use, Unknown) else frozenset(each.key.uuid for each in self.use.readings)
        )

    @property
    def more_than_used(self) -> int | None:
        """Return how many GPUs would do, once that was witnessed for as long as a job may be idle, or an hour."""
        after_s = self.rule.idle.timeout_s if self.rule.name else _SEEN_FOR_S
        if self.count.known_s < after_s:
            return None
        return could_do_with(self.job, self.count.most_used)

    def verdict(self, finding: str, reason: Reason) -> Verdict:
        """Return what was found about the job, with the readings that show it."""
        return Verdict(self.job.subject, finding, reason, self._evidence())

    def view(self) -> ClusterJobView:
        """Return the job for the board."""
        if isinstance(self.use, Unknown):
            activity, reason = JobActivity.UNKNOWN, Reason("gpu_unknown", why=self.use.why)
        else:
            activity, reason = self.use.activity, self.use.reason
        action, in_s = next_action(self.count, self.effective) if self.rule.name else ("nothing", 0.0)
        refused = self.refusal or (self.forced if self.rule.acts else None)
        return ClusterJobView(
            self.job,
            activity,
            reason,
            uses=() if isinstance(self.use, Unknown) else self.use.uses,
            idle_s=self.count.idle_s,
            could_do_with=self.more_than_used,
            rule=self.rule.name,
            action=action,
            in_s=in_s,
            refused=None if refused is None else str(refused),
            left_alone=None if self.alone is None else str(self.alone),
            is_background=self.is_background,
        )

    def _evidence(self) -> Evidence:
        if isinstance(self.use, Unknown):
            return ()
        return tuple((f"GPU {use.place}", str(use.reason)) for use in self.use.uses[:_MOST_EVIDENCE])
