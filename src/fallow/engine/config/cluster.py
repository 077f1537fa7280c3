"""`[cluster]` and `[[cluster.idle]]`: which engine runs the jobs, who reads its GPUs, and the rules about jobs."""

from typing import Literal

from fallow.engine.config import types
from fallow.engine.config.base import Section, by_default
from fallow.policies.arbiter import RateLimit
from fallow.policies.cluster_gate import ClusterLadder, ClusterRule, Interactive
from fallow.policies.idle import When

_USUAL_NOTICE_S = 600.0


class ClusterIdle(Section):
    """Find jobs of the cluster that hold GPUs without using them; stop them only with `act = true`."""

    name: types.Name
    """The name that status, page and messages show; each rule needs its own."""
    idle_for: types.SomeTime
    """How long a job may hold GPUs without using any of them."""
    act: types.Flag = by_default(False)
    """Warn the people of a job, then ask it to end, then end it. Without it the rule only reports."""
    action: Literal["stop", "requeue"] = by_default("stop")
    """What is done with an idle job: `stop` it, or with Slurm put it back into the queue: `requeue`."""
    when: When = by_default("always")
    """When an idle job is warned and stopped: `always`, or only while jobs wait for GPUs: `wanted`."""
    idle_below: types.SomeShare = by_default(1)
    """The utilization in per cent below which a GPU is idle."""
    warn_before: types.SomeTime | None = by_default(None)
    """How long before it is asked people are warned; without it 10 minutes, or half of a shorter time."""
    grace: types.Duration = by_default("60s")
    """How long after it was asked a job is ended."""
    not_before: types.Duration = by_default("0s")
    """How long after its start no job is warned or stopped."""
    interactive: Interactive = by_default("same")
    """How jobs with a person before them are treated: the `same`, `first`, `only` they, or `never`."""
    interactive_not_before: types.Duration | None = by_default(None)
    """As `not_before`, for interactive jobs alone."""
    partitions: types.Several[types.Text] = by_default(())
    """Shell patterns of the partitions whose jobs it judges; all if none is named."""
    accounts: types.Several[types.Text] = by_default(())
    """Shell patterns of the accounts whose jobs it judges; all if none is named."""
    qos: types.Several[types.Text] = by_default(())
    """Shell patterns of the qualities of service whose jobs it judges; all if none is named."""
    namespaces: types.Several[types.Text] = by_default(())
    """Shell patterns of the namespaces whose jobs it judges; all if none is named."""
    users: types.Several[types.Text] = by_default(())
    """Shell patterns of the users whose jobs it judges; all if none is named."""
    names: types.Several[types.Text] = by_default(())
    """Shell patterns of the names of the jobs that it judges; all if none is given."""
    at_most: types.Count = by_default(10)
    """How many jobs the rule may stop within the time of `per`; further ones wait."""
    per: types.SomeTime = by_default("1h")
    """The time to which `at_most` applies."""

    def rule(self, longest_gap_s: float) -> ClusterRule:
        """Return the rule as the policy takes it."""
        notice_s = min(_USUAL_NOTICE_S, self.idle_for / 2) if self.warn_before is None else self.warn_before
        return ClusterRule(
            name=self.name,
            acts=self.act,
            idle=ClusterLadder(self.idle_for, self.grace, longest_gap_s, notice_s),
            longest_gap_s=longest_gap_s,
            idle_below=self.idle_below,
            requeues=self.action == "requeue",
            when=self.when,
            not_before_s=self.not_before,
            interactive=self.interactive,
            interactive_not_before_s=self.interactive_not_before,
            partitions=self.partitions,
            accounts=self.accounts,
            qos=self.qos,
            namespaces=self.namespaces,
            users=self.users,
            names=self.names,
            limit=RateLimit(self.at_most, self.per),
        )


class Cluster(Section):
    """A cluster that this daemon looks at: its engine, its metrics, and the rules about its jobs."""

    enabled: types.Flag = by_default(True)
    """Whether the cluster is looked at."""
    engine: Literal["slurm", "kubernetes"] | None = by_default(None)
    """What runs the jobs: `slurm` or `kubernetes`. Without it no cluster is looked at."""
    kubeconfig: types.HomePlace | None = by_default(None)
    """The file that says where Kubernetes is and who we are there; without it as kubectl and pods have it."""
    slurm_conf: types.Place | None = by_default(None)
    """The slurm.conf of the cluster; without it that of SLURM_CONF, or where Slurm's commands look by themselves."""
    prometheus: types.HttpUrl | None = by_default(None)
    """The address of the Prometheus that has the readings of all GPUs, as `"http://127.0.0.1:9090"`."""
    token_file: types.Place | None = by_default(None)
    """A file with the token that Prometheus wants. Nobody but the user who runs fallow should be able to read it."""
    metrics: Literal["auto", "fallow", "dcgm"] = by_default("auto")
    """Whose metrics are read: `fallow`'s own, those of `dcgm`-exporter, or the one that is there: `auto`."""
    exporters: types.Several[types.Text] = by_default(())
    """Shell patterns of the `job` labels of the exporters whose series count; all if none is named."""
    scrape_interval: types.SomeTime = by_default("60s")
    """How often Prometheus reads the exporters of the nodes."""
    background: types.Several[types.Text] = by_default(())
    """Partitions of Slurm whose jobs give way to all others: their GPUs are available, and no rule judges them."""
    every: types.Tick = by_default("30s")
    """How often the cluster is looked at."""
    idle: tuple[ClusterIdle, ...] = by_default(())
    """Rules for jobs that hold GPUs without using them; there may be several."""

    @property
    def is_watched(self) -> bool:
        """Return whether there is a cluster to look at."""
        return self.enabled and self.engine is not None
