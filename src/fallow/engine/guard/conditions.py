"""The conditions of `--unless`: people at terminals, CPU use, network traffic, a process.

Each is called once a tick. It returns a reason against acting, Unknown if it cannot be read, or None.
"""

from collections.abc import Callable

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.reasons import Reason
from fallow.core.units import ratio, size_bytes, span_s
from fallow.core.unknown import Unknown
from fallow.engine.machine.presence import demand_user_idle, who_is_at_a_terminal
from fallow.engine.machine.world import World
from fallow.readers.terminals import Terminals

Condition = Callable[[], Reason | Unknown | None]
USER_IDLE_S = 300.0
_KINDS = ("users", "cpu", "net", "process")


def parse_unless(text: str, world: World) -> Condition:
    """Return the condition that a person wrote: `users`, `users:10m`, `cpu:20`, `net:1MB` or `process:NAME`."""
    kind, _, rest = text.partition(":")
    match kind.strip(), rest.strip():
        case "users", rest:
            return users(world.terminals(), demand_user_idle(span_s(rest)) if rest else USER_IDLE_S)
        case "cpu", rest if rest:
            return Rate("CPU", world.proc.cpu_ticks, ratio(rest), lambda load: Reason("cpu", load=load))
        case "net", rest if rest:
            most = size_bytes(rest.removesuffix("/s"))
            return Rate("network", lambda: _traffic(world), most, lambda rate: Reason("network", rate_bytes=rate))
        case "process", rest if rest:
            return process(world, rest)
    way = "" if kind in _KINDS else did_you_mean(kind, _KINDS)
    raise WrongUsage(f"{text!r} is not a condition", way or "write users, users:10m, cpu:20, net:1MB or process:NAME")


def users(terminals: Terminals, idle_s: float) -> Condition:
    """Return the condition that a person has used a terminal within `idle_s`."""
    return lambda: who_is_at_a_terminal(terminals, idle_s)


def process(world: World, name: str) -> Condition:
    """Return the condition that a process of this name runs."""

    def check() -> Reason | Unknown | None:
        pid = world.proc.running(name)
        if pid is None or isinstance(pid, Unknown):
            return pid
        return Reason("process_runs", name=name, pid=pid)

    return check


class Rate:
    """The condition that something grew by more than a limit since the last tick."""

    def __init__(
        self,
        what: str,
        read: Callable[[], tuple[float, float] | Unknown],
        above: float,
        reason: Callable[[float], Reason],
    ) -> None:
        """`read` returns how much there was until now, and the time by which its growth is divided."""
        self._what = what
        self._read = read
        self._above = above
        self._reason = reason
        self._before: tuple[float, float] | None = None

    def __call__(self) -> Reason | Unknown | None:
        """Return the reason; Unknown at the first tick, which has nothing to compare with."""
        now = self._read()
        if isinstance(now, Unknown):
            return now
        before, self._before = self._before, now
        if before is None or now[1] <= before[1]:
            return Unknown(f"the {self._what} was looked at only once")
        rate = (now[0] - before[0]) / (now[1] - before[1])
        return self._reason(rate) if rate > self._above else None


def _traffic(world: World) -> tuple[float, float] | Unknown:
    moved = world.proc.net_bytes()
    return moved if isinstance(moved, Unknown) else (moved, world.clock.monotonic_s())
