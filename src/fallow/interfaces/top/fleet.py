"""Take the looks of `fallow top --fleet`: this machine as the daemon sees it, and each host that the daemon asks."""

from collections.abc import Iterable
from itertools import count

from fallow.core.errors import NoDaemon
from fallow.core.gpu_status import Status
from fallow.core.units import shortened
from fallow.core.value import replace
from fallow.engine.machine import from_json
from fallow.engine.machine.daemon_client import DaemonClient, Facts
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import WRONG_SHAPE
from fallow.engine.remote.status import host_status
from fallow.interfaces.top.look import Look, Source

_LONGEST_NAME = 64
_LONGEST_WHY = 200


class FleetSource(Source):
    """Takes looks at all hosts. Only the daemon can tell of them: without it there is no look."""

    def __init__(self, world: World, every_s: float) -> None:
        super().__init__(world, every_s, alone=False)
        self._asked = world.daemon(self._hear)

    def look(self) -> Look:
        """Return all hosts as the daemon has them; raise NoDaemon if none tells them."""
        self._heard = ""
        found = self._asked.fleet()
        if found is None:
            remedy = "name them under [fleet] in the config of `fallow up`"
            raise NoDaemon(self._heard or "no daemon here asks other hosts", remedy)
        try:
            hosts = _named_apart(self._host(facts, self._asked) for facts in found["hosts"])
        except WRONG_SHAPE as error:
            raise NoDaemon(f"what the daemon tells of its fleet makes no sense: {error}") from None
        own = next((host for host in hosts if not host.is_elsewhere), None)
        if own is None:
            raise NoDaemon("the daemon tells nothing of its own machine")
        silent = sum(host.silent is not None for host in hosts)
        name = f"{len(hosts)} hosts{f' ({silent} silent)' if silent else ''}"
        simulated = any(host.status.simulated for host in hosts)
        gpus = tuple(gpu for host in hosts for gpu in host.status.gpus)
        status = Status(name, simulated, own.status.wall_s, gpus)
        return Look(status, own.at_s, "the daemon", rules=(), hosts=hosts)

    def _host(self, facts: Facts, daemon: DaemonClient) -> Look:
        name = shortened(str(facts["name"]), _LONGEST_NAME)
        if not facts["here"]:
            return self._other(name, facts)
        status = from_json.status(facts["status"])
        rules = daemon.rules_on([str(gpu.uuid) for gpu in status.gpus], None)
        return self.look_of(status, "the daemon", None if rules is None else tuple(rules), daemon, name)

    def _other(self, name: str, facts: Facts) -> Look:
        clock = self._world.clock
        source = f"{name} tells it: run fallow why there"
        wall_s, at_s = clock.wall_s(), clock.monotonic_s()
        try:
            if facts["status"] is not None:
                told = host_status(facts["status"])
                gpus = {gpu.label: gpu for gpu in told.status.gpus}  # a host that names one twice has one of it
                status = replace(told.status, gpus=tuple(gpus.values()))
                return Look(status, at_s, source, host=name, outlooks=told.outlooks)
            why, since_s = str(facts["error"]), from_json.wall_s(facts["since"])
        except WRONG_SHAPE as error:
            why, since_s = f"what it tells makes no sense: {error}", wall_s
        nothing = Status(name, simulated=False, wall_s=wall_s, gpus=())
        silent_s = max(0.0, wall_s - since_s)
        return Look(nothing, at_s, source, host=name, silent=shortened(why, _LONGEST_WHY), silent_s=silent_s)


def _named_apart(hosts: Iterable[Look]) -> tuple[Look, ...]:
    """Return the hosts, each with a name of its own: a config may call another machine as this one calls itself."""
    found: dict[str, Look] = {}
    for host in hosts:
        names = (f"{host.host}~{number}" if number > 1 else host.host for number in count(1))
        name = next(each for each in names if each not in found)
        found[name] = replace(host, host=name)
    return tuple(found.values())
