"""What fallow may do here: signal others, turn the machine off, look into a process."""

import os
import sys
from collections.abc import Iterator

from fallow.actuators.host.power import PowerAction, SystemPower
from fallow.actuators.process.helpers import Helpers
from fallow.actuators.process.spawn import find
from fallow.core.errors import CannotRun, CommandNotFound
from fallow.core.missing import remedy
from fallow.core.unknown import Unknown
from fallow.engine.doctor.finding import CheckFinding, lacking, ok
from fallow.engine.machine.world import World

_CAP_KILL, _CAP_SYS_PTRACE = 5, 19


def signals(world: World) -> Iterator[CheckFinding]:
    """Whose processes can be stopped."""
    if _may(world, _CAP_KILL):
        yield ok("signals", "every user's processes can be asked to end, where a rule says so")
    else:
        means = f"only {world.user}'s processes can be stopped: idle rules for those of others cannot act"
        yield lacking("signals", means, "run `fallow up` as root, or with the capability KILL")


def power(world: World) -> Iterator[CheckFinding]:
    """Whether guard could turn the machine off or restart it."""
    hands = SystemPower(Helpers(world.clock.monotonic_s), world.environ)
    for action in PowerAction:
        why_not = hands.can(action)
        if why_not is None:
            yield ok(action.value, "it can be done; nothing does it unless it is told to")
        else:
            means = f"{why_not}: guard refuses `--action {action.value}` from the start"
            yield lacking(action.value, means, "run it as root, or let polkit permit it")


def stacks(world: World) -> Iterator[CheckFinding]:
    """Whether py-spy is there and may look into a job."""
    beside = f"{world.environ.get('PATH', os.defpath)}:{os.path.dirname(sys.executable)}"
    try:
        find(["py-spy"], {**world.environ, "PATH": beside})
    except (CommandNotFound, CannotRun):
        means = "py-spy is not installed: --dump-stacks writes none"
        yield lacking("stacks", means, remedy("py-spy"))
        return
    scope = world.proc.kernel_setting("kernel/yama/ptrace_scope")
    strict = not isinstance(scope, Unknown) and scope > 0
    if strict and not _may(world, _CAP_SYS_PTRACE):
        means = f"py-spy is there and may not look into a job (kernel.yama.ptrace_scope is {scope})"
        yield lacking("stacks", means, "run as root, or set kernel.yama.ptrace_scope=0")
    else:
        yield ok("stacks", "py-spy is there and may look into a job")


def _may(world: World, capability: int) -> bool:
    held = world.proc.capabilities()
    return os.geteuid() == 0 if isinstance(held, Unknown) else bool(held >> capability & 1)
