"""The cluster as the daemon's main thread has it: started, replaced and ended with the config, never waited for."""

from fallow.core.cluster import ClusterBoard
from fallow.core.errors import FallowError
from fallow.engine.config.cluster import Cluster
from fallow.engine.config.model import Config
from fallow.engine.history.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.cluster.loop import ClusterLoop

_LEAVE_AFTER_S = 3.0


class ClusterWatch:
    """Holds the loop of the cluster, if the config names one. Only the main thread changes it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._config = Config()
        self._loop: ClusterLoop | None = None

    @property
    def board(self) -> ClusterBoard | None:
        """Return the cluster as it was seen last; None without one, and before the first look."""
        return None if self._loop is None else self._loop.board

    def change(self, config: Config) -> None:
        """Apply a config. A loop goes on with its rules; one that looks elsewhere, or otherwise, begins at zero."""
        before, self._config = self._config, config
        rules_are_same = (config.cluster.idle, config.protect) == (before.cluster.idle, before.protect)
        if _what_is_looked_at(config) == _what_is_looked_at(before):
            if self._loop is not None and not rules_are_same:
                from fallow.engine.cluster.compose import rules_of

                self._loop.change(*rules_of(self._run, config))
            return
        if self._loop is not None:
            self._loop.end()
            self._loop = None
        if not config.cluster.is_watched:
            return
        from fallow.engine.cluster.compose import cluster_loop  # a daemon without a cluster does not load it

        try:
            self._loop = cluster_loop(self._run, config)
            if self._loop is not None:
                self._loop.start()
        except (FallowError, RuntimeError) as error:
            self._loop = None
            self._run.say(f"the cluster is not looked at: {error}")

    def turn(self) -> None:
        """Say, count and send what the cluster's thread wants."""
        if self._loop is not None:
            self._loop.turn()

    def end(self) -> None:
        """Let the loop end; its warnings are taken back, if that is quick."""
        if self._loop is not None:
            self._loop.end(_LEAVE_AFTER_S)
            self._loop = None


def _what_is_looked_at(config: Config) -> Cluster:
    return config.cluster.model_copy(update={"idle": ()})
