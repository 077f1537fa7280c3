"""The conditions of `--unless`: people at terminals, CPU use, network traffic, a process.

Each is called once a tick. It returns a reason against acting, Unknown if it cannot be read, or None.
"""

from collections.abc import Callable

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.units import bytes_for_people, duration_for_people, ratio, size_bytes, span_s
from fallow.core.unknown import Unknown
from fallow.engine.machine.presence import demand_user_idle
from fallow.engine.machine.world import World
from fallow.readers.terminals import Terminals

Condition = Callable[[], str | Unknown | None]
USER_IDLE_S = 300.0
_KINDS = ("users", "cpu", "net", "process")


def parse_unless(text: str, world: World) -> Condition:
    """Return the condition that a person wrote: `users`, `users:10m`, `cpu:20`, `net:1MB` or `process:NAME`."""
    kind, _, rest = text.partition(":")
    match kind.strip(), rest.strip():
        case "users", rest:
            return users(world.terminals(), demand_user_idle(span_s(rest)) if rest else USER_IDLE_S)
        case "cpu", rest if rest:
            return Cpu(world, ratio(rest))
        case "net", rest if rest:
            return Net(world, size_bytes(rest.removesuffix("/s")))
        case "process", rest if rest:
            return process(world, rest)
    way = "" if kind in _KINDS else did_you_mean(kind, _KINDS)
    raise WrongUsage(f"{text!r} is not a condition", way or "write users, users:10m, cpu:20, net:1MB or process:NAME")


def users(terminals: Terminals, idle_s: float) -> Condition:
    """Return the condition that a person has used a terminal within `idle_s`."""

    def check() -> str | Unknown | None:
        people = terminals.people()
        if isinstance(people, Unknown):
            return people
        for person in people:
            if isinstance(person.idle_s, Unknown):
                return Unknown(f"how long {person.user} has been away from {person.place} is {person.idle_s}")
            if person.idle_s < idle_s:
                return f"{person.user} was at {person.place} {duration_for_people(person.idle_s)} ago"
        return None

    return check


def process(world: World, name: str) -> Condition:
    """Return the condition that a process of this name runs."""

    def check() -> str | Unknown | None:
        pid = world.proc.running(name)
        if pid is None or isinstance(pid, Unknown):
            return pid
        return f"{name} runs (pid {pid})"

    return check


class Cpu:
    """The condition that the CPU use since the last tick was above a limit."""

    def __init__(self, world: World, above: float) -> None:
        self._world = world
        self._above = above
        self._before: tuple[int, int] | None = None

    def __call__(self) -> str | Unknown | None:
        """Return the reason; Unknown at the first tick, which has nothing to compare with."""
        now = self._world.proc.cpu_ticks()
        if isinstance(now, Unknown):
            return now
        before, self._before = self._before, now
        passed = 0 if before is None else now[1] - before[1]
        if before is None or passed <= 0:
            return Unknown("the CPU was looked at only once")
        load = (now[0] - before[0]) / passed
        return f"the CPU is at {load:.0%}" if load > self._above else None


class Net:
    """The condition that the network traffic since the last tick was above a limit."""

    def __init__(self, world: World, above_bytes_per_s: float) -> None:
        self._world = world
        self._above = above_bytes_per_s
        self._before: tuple[float, int] | None = None

    def __call__(self) -> str | Unknown | None:
        """Return the reason; Unknown at the first tick, which has nothing to compare with."""
        moved = self._world.proc.net_bytes()
        if isinstance(moved, Unknown):
            return moved
        now_s = self._world.clock.monotonic_s()
        before, self._before = self._before, (now_s, moved)
        passed_s = 0.0 if before is None else now_s - before[0]
        if before is None or passed_s <= 0:
            return Unknown("the network was looked at only once")
        rate = (moved - before[1]) / passed_s
        return f"the network moves {bytes_for_people(rate)}/s" if rate > self._above else None
