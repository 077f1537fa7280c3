"""The fleet as the daemon's main thread has it: started, replaced and ended with the config, never waited for."""

from fallow.core.fleet import FleetBoard
from fallow.engine.config.fleet import Fleet
from fallow.engine.config.model import Config
from fallow.engine.history.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.fleet.ask import Host
    from fallow.engine.fleet.loop import FleetLoop


class FleetWatch:
    """Holds the loop of the fleet, if the config names hosts. Only the main thread changes it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._fleet = Fleet()
        self._loop: FleetLoop | None = None

    @property
    def board(self) -> FleetBoard | None:
        """Return the fleet as it was last heard of; None without one."""
        return None if self._loop is None else self._loop.board

    @property
    def hosts(self) -> "tuple[Host, ...]":
        """Return the hosts and how to ask them. Any thread may ask."""
        loop = self._loop
        return () if loop is None else loop.hosts

    def change(self, config: Config) -> None:
        """Apply a config. A loop whose config is the same goes on; another one begins at zero."""
        before, self._fleet = self._fleet, config.fleet
        if config.fleet == before:
            return
        self.end()
        if not config.fleet.hosts:
            return
        from fallow.engine.fleet.ask import Host  # a daemon without a fleet does not load it
        from fallow.engine.fleet.loop import FleetLoop
        from fallow.engine.remote.ask import MOST_BYTES
        from fallow.readers.remote_http import RemoteHttp, server_at

        clock = self._run.world.clock
        hosts = [
            Host(each.name, RemoteHttp(clock, server_at(each.url), each.token_file or "", MOST_BYTES, signs=True))
            for each in config.fleet.hosts
        ]
        self._loop = FleetLoop(self._run, hosts, config.fleet.every, config.fleet.silent_for)
        try:
            self._loop.start()
        except RuntimeError as error:
            self.end()
            self._run.say(f"the fleet is not asked: {error}")

    def turn(self) -> None:
        """Tell people what has changed."""
        if self._loop is not None:
            self._loop.turn()

    def end(self) -> None:
        """Ask no more."""
        if self._loop is not None:
            self._loop.end()
            self._loop = None
