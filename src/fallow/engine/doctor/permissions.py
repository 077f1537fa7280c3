"""Check what fallow may do here: signal processes, power the machine off, read the stacks of a process."""

import os
import sys
from collections.abc import Iterator

from fallow.actuators.host.power import SystemPower
from fallow.actuators.process.spawn import find
from fallow.core.actions import PowerOff, Reboot
from fallow.core.errors import CannotRun
from fallow.core.missing import remedy
from fallow.core.unknown import Unknown
from fallow.engine.doctor.finding import CheckFinding, lacking, ok
from fallow.engine.machine.world import World

_CAP_KILL, _CAP_SYS_PTRACE = 5, 19


def signals(world: World) -> Iterator[CheckFinding]:
    """Check whose processes fallow can stop."""
    if _may(world, _CAP_KILL):
        yield ok("signals", "the processes of every user can be stopped, if a rule says so")
    else:
        means = f"only processes of {world.user} can be stopped: idle rules cannot act on those of others"
        yield lacking("signals", means, "run `fallow up` as root, or with CAP_KILL")


def power(world: World) -> Iterator[CheckFinding]:
    """Check whether a guard could power the machine off or reboot it."""
    hands = SystemPower(world.environ)
    for name, action in (("shutdown", PowerOff()), ("reboot", Reboot())):
        why_not = hands.can(action)
        if why_not is None:
            yield ok(name, "permitted; nothing does it unless a guard says so")
        else:
            means = f"{why_not.sentence}: guard refuses `--action {name}`"
            yield lacking(name, means, why_not.way)


def stacks(world: World) -> Iterator[CheckFinding]:
    """Check whether py-spy is installed and may read the stacks of a job."""
    beside = f"{world.environ.get('PATH', os.defpath)}:{os.path.dirname(sys.executable)}"
    try:
        find(["py-spy"], {**world.environ, "PATH": beside})
    except CannotRun:
        means = "py-spy is not installed: --dump-stacks writes nothing"
        yield lacking("stacks", means, remedy("py-spy"))
        return
    scope = world.proc.kernel_setting("kernel/yama/ptrace_scope")
    strict = not isinstance(scope, Unknown) and scope > 0
    if strict and not _may(world, _CAP_SYS_PTRACE):
        means = f"py-spy is installed but may not read a process (kernel.yama.ptrace_scope is {scope})"
        yield lacking("stacks", means, "run as root, or set kernel.yama.ptrace_scope=0")
    else:
        yield ok("stacks", "py-spy is installed and may read a process")


def _may(world: World, capability: int) -> bool:
    held = world.proc.capabilities()
    return os.geteuid() == 0 if isinstance(held, Unknown) else bool(held >> capability & 1)
