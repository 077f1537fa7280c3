"""The conditions of a guard, which are about the machine: people at terminals, CPU use, a process.

Each is called once a tick. It returns a reason against acting, Unknown if it cannot be read, or None.
"""

from fallow.core.did_you_mean import most_alike
from fallow.core.errors import WrongUsage
from fallow.core.reasons import Reason
from fallow.core.units import ratio, span_s
from fallow.core.unknown import Unknown
from fallow.engine.conditions.rate import Condition, Found, Rate
from fallow.engine.machine.presence import demand_user_idle, who_is_at_a_terminal
from fallow.engine.machine.world import World
from fallow.readers.terminals import Terminals

USER_IDLE_S = 300.0
_KINDS = ("users", "cpu", "process")


def parse_unless(text: str, world: World) -> Condition:
    """Return the condition that a person wrote: `users`, `users:10m`, `cpu:20` or `process:NAME`."""
    kind, _, rest = text.partition(":")
    match kind.strip(), rest.strip():
        case "users", rest:
            return users(world.terminals(), demand_user_idle(span_s(rest)) if rest else USER_IDLE_S)
        case "cpu", rest if rest:
            most = ratio(rest)
            if most <= 0:
                raise WrongUsage(f"'cpu:{rest}' is always so", "write more than 0, as cpu:20")
            return Rate("CPU", world.proc.cpu_ticks, most, lambda load: Reason("cpu", load=load))
        case "process", rest if rest:
            return process(world, rest)
    alike = "" if kind.strip() in _KINDS else most_alike(kind.lower().removeprefix("not "), _KINDS)
    meant = f"{alike}:{rest.strip()}" if rest.strip() else alike
    way = f"did you mean {meant}?" if alike and (rest.strip() or alike == "users") else ""
    raise WrongUsage(f"{text!r} is not a condition", way or "write users, users:10m, cpu:20 or process:NAME")


def users(terminals: Terminals, idle_s: float) -> Condition:
    """Return the condition that a person has used a terminal within `idle_s`."""
    return lambda: who_is_at_a_terminal(terminals, idle_s)


def process(world: World, name: str) -> Condition:
    """Return the condition that a process of this name runs."""

    def check() -> Found:
        pid = world.proc.running(name)
        if pid is None or isinstance(pid, Unknown):
            return pid
        return Reason("process_runs", name=name, pid=pid)

    return check
