"""The process that a guard signals, which a person named with --attach."""

import signal

from fallow.actuators.process.signals import Handle, untouchable
from fallow.actuators.process.tree import JobTree
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.process import Process
from fallow.engine.machine.world import World


class Attached:
    """A process that a person named, with all its descendants."""

    def __init__(self, world: World, pid: int) -> None:
        stat = world.proc.stat(pid)
        if stat is None:
            raise WrongUsage(f"there is no process {pid} to attach to")
        if pid in untouchable(world.proc):
            raise NotPermitted(f"fallow never signals pid {pid}: it is fallow's own, or one that it lives by")
        self._proc = world.proc
        self.tree = JobTree(world.proc, Process(pid, stat.birth), world.clock.monotonic_s)

    def shortcoming(self) -> FallowError | None:
        """Return the error if one of its processes could not be signalled; None if all can."""
        proc = self._proc
        never = untouchable(proc)
        for row in self.tree.living():
            handle = Handle.open(proc, row.process, never)
            if handle is not None:
                with handle:
                    if not handle.may_signal():
                        return NotPermitted(f"pid {row.pid} is {proc.user(row.pid)}'s, and signalling it needs root")
        return None

    def send(self, name: str) -> Outcome:
        """Send a signal to each of its processes, children first."""
        if not self.tree.living():
            return Outcome(True, f"pid {self.tree.root.pid} has ended by itself")
        sent = self.tree.ask(signal.Signals[f"SIG{name}"])
        return Outcome(
            sent > 0, f"SIG{name} to {sent} processes" if sent else "none of its processes may be signalled"
        )
