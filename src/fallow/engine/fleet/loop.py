"""Ask each host of the fleet again and again, in a thread of its own, so that a silent one delays nobody."""

import json
from collections.abc import Sequence
from threading import Event, Thread

from fallow.core.findings import Verdict
from fallow.core.fleet import FleetBoard, FleetHost
from fallow.core.notices import Notice
from fallow.core.reasons import Reason
from fallow.core.units import printable, shortened
from fallow.engine.fleet.ask import TOO_LONG, Host, ask
from fallow.engine.history.run import Run
from fallow.engine.remote.ask import WRONG_SHAPE
from fallow.engine.remote.status import HostStatus, host_status

_LIMIT_S = 5.0
_OLD_S = 60.0
_LONGEST = 200
# All that 64 hosts told goes into one answer, of which a client reads 64 MiB.
_MOST_BYTES = 960 << 10
# A token that was wrong will be wrong again, and too many wrong ones close that host to all who ask from our address.
_REFUSED_S = 5.0


class FleetLoop:
    """The hosts as they were last heard of. Only the main thread calls `turn`."""

    def __init__(self, run: Run, hosts: Sequence[Host], every_s: float, silent_for_s: float) -> None:
        self._run = run
        self._hosts = tuple(hosts)
        self._every_s = every_s
        self._silent_for_s = silent_for_s
        self._ending = Event()
        begin_s = run.world.clock.wall_s()
        not_yet = Reason("host_not_asked")
        self._heard = {host.name: FleetHost(host.name, begin_s, silent=not_yet) for host in self._hosts}
        self._silent: set[str] = set()
        self._since_s: dict[str, float] = {}

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Return the hosts and how to ask them."""
        return self._hosts

    @property
    def board(self) -> FleetBoard:
        """Return all hosts as they were last heard of."""
        return FleetBoard(tuple(self._heard[host.name] for host in self._hosts))

    def start(self) -> None:
        """Begin to ask."""
        for host in self._hosts:
            Thread(target=self._ask_on, args=(host,), name=f"fallow-fleet-{host.name}", daemon=True).start()

    def end(self) -> None:
        """Ask no more; a question that is under way is not waited for."""
        self._ending.set()

    def turn(self) -> None:
        """Tell people which hosts have fallen silent for long enough, and which are back."""
        now_s = self._run.world.clock.monotonic_s()
        for name, heard in self._heard.items():
            if heard.silent is None:
                self._since_s.pop(name, None)
                if name in self._silent:
                    self._silent.discard(name)
                    self._say(name, Reason("host_is_back", host=name))
            elif now_s - self._since_s.setdefault(name, now_s) >= self._silent_for_s and name not in self._silent:
                self._silent.add(name)
                self._say(name, Reason("host_fell_silent", host=name, for_s=self._silent_for_s, why=heard.silent))

    def _say(self, name: str, reason: Reason) -> None:
        back = reason.kind == "host_is_back"
        key = f"host:{name}"
        self._run.journal.verdict(Verdict(f"host {name}", "back" if back else "silent", reason), [key])
        self._run.say(str(reason))
        self._run.report.notify(Notice("host_back" if back else "host_silent", key, str(reason)))

    def _ask_on(self, host: Host) -> None:
        clock = self._run.world.clock
        told, changed_s = "", clock.monotonic_s()
        while not self._ending.is_set():
            found = _status(host)
            if isinstance(found, HostStatus):
                at = str(found.facts["at"])
                if at != told:
                    told, changed_s = at, clock.monotonic_s()
                old_s = clock.monotonic_s() - changed_s
                if old_s > _OLD_S:  # by our own clock: those of two machines may differ
                    found = Reason("host_looks_no_more", for_s=old_s)
            self._keep(host.name, found)
            refused = isinstance(found, Reason) and found.kind == "host_answers"
            self._ending.wait(max(self._every_s, _REFUSED_S) if refused else self._every_s)

    def _keep(self, name: str, found: HostStatus | Reason) -> None:
        before, now_s = self._heard[name], self._run.world.clock.wall_s()
        if isinstance(found, Reason):
            since_s = now_s if before.silent is None else before.since_wall_s
            self._heard[name] = FleetHost(name, since_s, silent=found)
        else:
            since_s = before.since_wall_s if before.silent is None else now_s
            self._heard[name] = FleetHost(name, since_s, found.status, found.facts)


def _status(host: Host) -> HostStatus | Reason:
    """Return what the host tells. Whatever happens is a reason: the thread must go on."""
    try:
        facts = ask(host, "/status", _LIMIT_S, _MOST_BYTES)
        if isinstance(facts, Reason):
            return facts
        if len(json.dumps(facts)) > _MOST_BYTES:  # what was one byte there may be six here
            return Reason("host_makes_no_sense", why=TOO_LONG)
        return host_status(facts)
    except WRONG_SHAPE as error:
        return Reason("host_makes_no_sense", why=shortened(str(error), _LONGEST))
    except Exception as error:  # noqa: BLE001  a thread that ends in silence would show the last answer for ever
        return Reason("host_makes_no_sense", why=printable(type(error).__name__))
