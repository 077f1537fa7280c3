"""Make the loop of the cluster that a config names: its engine and its eyes are loaded only then."""

from collections.abc import Callable, Sequence

from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.core.cluster import Readings
from fallow.core.errors import PartMissing, WrongUsage
from fallow.core.ports import Clock
from fallow.core.protections import Protection
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.cluster.dry_run import DryRunEngine
from fallow.engine.cluster.loop import ClusterLoop
from fallow.engine.cluster.ports import ClusterEngine, Eyes
from fallow.engine.config.cluster import Cluster
from fallow.engine.config.model import Config
from fallow.engine.history.run import Run
from fallow.engine.jobs.known_groups import KnownGroups
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import ClusterRule
from fallow.readers.accounts import user_name

_LOOKS_BESIDE = 1  # a look may take as long as the pause between two of them


def cluster_loop(run: Run, config: Config) -> ClusterLoop | None:
    """Return the loop for the cluster of the config, not started yet; None if it names none. Raise FallowError."""
    cluster = config.cluster
    if not cluster.is_watched:
        return None
    rules, protect = rules_of(run, config)
    engine = engine_of(run, cluster)
    return ClusterLoop(
        run,
        DryRunEngine(engine) if run.dry_run else engine,
        eyes_of(run, cluster),
        rules,
        protect,
        _own_protections(run),
        cluster.every,
        frozenset(cluster.background),
    )


def rules_of(run: Run, config: Config) -> tuple[list[ClusterRule], ProtectRules]:
    """Return the rules of the config, and what none of them stops."""
    gap_s = _longest_gap_s(config.cluster)
    return [rule.rule(gap_s) for rule in config.cluster.idle], protect_rules(run, config)


def _longest_gap_s(cluster: Cluster) -> float:
    return cluster.every * (MISSED_LOOKS + _LOOKS_BESIDE)


def protect_rules(run: Run, config: Config) -> ProtectRules:
    """Return what no rule stops, because the config protects it."""
    groups = KnownGroups(config.protect.groups, run.world.clock, run.say)
    return replace(config.protect.protect_rules, groups_of=groups.of)


def engine_of(run: Run, cluster: Cluster) -> ClusterEngine:
    """Return the engine that the config names; it is loaded only then, so that others start as fast as before."""
    world = run.world
    try:
        if cluster.engine == "slurm":
            from fallow.engine.cluster.slurm import slurm_engine

            return slurm_engine(world.clock, world.environ, cluster.slurm_conf or "", cluster.background)
        from fallow.engine.cluster.kubernetes import kubernetes_engine

        return kubernetes_engine(world.clock, cluster.kubeconfig or "")
    except ModuleNotFoundError as error:
        raise PartMissing.of("[cluster]", error.name or "a package") from None


def eyes_of(run: Run, cluster: Cluster) -> Eyes:
    """Return who reads the GPUs of the cluster; without the address of a Prometheus nobody does."""
    if cluster.prometheus is None:
        return NoEyes(run.world.clock)
    from fallow.readers.prometheus.eyes import Source, open_eyes

    try:
        source = Source(cluster.metrics)
        return open_eyes(
            run.world.clock,
            cluster.prometheus,
            source,
            cluster.scrape_interval,
            cluster.token_file or "",
            exporters=cluster.exporters,
        )
    except ValueError as error:
        raise WrongUsage(f"[cluster] prometheus: {error}") from None


class NoEyes:
    """Reads nothing: what the GPUs do is unknown, and nothing is stopped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def read(self) -> Readings:
        """Return that nothing is read."""
        why = Unknown("the config names no Prometheus; add prometheus = under [cluster]")
        return Readings(self._clock.monotonic_s(), 0.0, trouble=why)


def _own_protections(run: Run) -> Callable[[], Sequence[Protection]]:
    """Return a reader of the protections for the cluster's thread alone; in doubt everything is protected."""
    world = run.world
    opened: list[ProtectionFolder] = []

    def active() -> Sequence[Protection]:
        if not opened:
            folder = ClaimFolder(folder_path(world.environ))
            opened.append(ProtectionFolder(folder, user_name, world.proc))
        return opened[0].active(world.clock.wall_s())

    return active
