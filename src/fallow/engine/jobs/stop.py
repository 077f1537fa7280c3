"""The hands on one job: warn, ask, insist, and see that its GPUs are free again. Or only say so."""

import signal
from collections.abc import Callable, Sequence
from typing import Protocol

from fallow.actuators.process.helpers import Helpers
from fallow.actuators.process.tree import JobTree
from fallow.core.activity import unseen_memory_bytes
from fallow.core.findings import Outcome
from fallow.core.gpu import Holder
from fallow.core.job import find_gpu
from fallow.core.ports import Depth
from fallow.core.units import bytes_for_people, printable, program_name
from fallow.core.unknown import Unknown
from fallow.engine.jobs.stack_dump import write_stacks
from fallow.engine.machine.world import World

_MEMORY_IS_BACK_WITHIN_S = 5.0
_LOOK_AGAIN_S = 0.1


class JobActions(Protocol):
    """What can be done to a job."""

    def ask(self, name: str) -> Outcome:
        """Send everybody of the job its polite signal."""

    def insist(self) -> Outcome:
        """Kill what is left of it."""


class SystemJobActions:
    """Does it."""

    def __init__(
        self,
        trees: Sequence[JobTree],
        helpers: Helpers,
        world: World,
        tell: Callable[[str], None],
        *,
        stacks_named: str | None = None,
        kill_for_s: float = 5.0,
    ) -> None:
        """`stacks_named` names the file of the Python stacks, if they are wanted before the job is asked.

        `insist_for_s`: how long to wait for those who were killed; 0 sends the signal and comes back at once.
        """
        self._trees = trees
        self._kill_for_s = kill_for_s
        self._helpers = helpers
        self._world = world
        self._stacks_named = stacks_named
        self._tell = tell

    def ask(self, name: str) -> Outcome:
        """The stacks first: a job that has been asked may be gone before they are read."""
        if self._stacks_named is not None:
            pids = [row.pid for tree in self._trees for row in tree.living()]
            self._tell(write_stacks(self._world, pids, self._stacks_named, self._helpers))
        asked = sum(tree.ask(signal.Signals[f"SIG{name}"]) for tree in self._trees)
        return Outcome(asked > 0, f"SIG{name} to {_processes(asked)}")

    def insist(self) -> Outcome:
        """Whoever is left then is named."""
        survivors = [survivor for tree in self._trees for survivor in tree.insist(self._kill_for_s)]
        if survivors:
            return Outcome(False, "; ".join(str(survivor) for survivor in survivors))
        return Outcome(True, "nobody is left")


class DryRunJobActions:
    """Says it."""

    def ask(self, name: str) -> Outcome:
        """Only say it."""
        return Outcome(True, f"would send SIG{name} to every process of the job")

    def insist(self) -> Outcome:
        """Only say it."""
        return Outcome(True, "would kill what is left of the job")


def who_still_holds(world: World, uuids: tuple[str, ...]) -> list[str]:
    """After a job was ended: who is still on its GPUs when the driver has had time to tear down."""
    until_s = world.clock.monotonic_s() + _MEMORY_IS_BACK_WITHIN_S
    while True:
        left = _left(world, uuids)
        if not left or world.clock.monotonic_s() >= until_s:
            return left
        world.clock.sleep(_LOOK_AGAIN_S)


def _left(world: World, uuids: tuple[str, ...]) -> list[str]:
    snapshot = world.gpu_reader.describe(world.gpu_reader.look(Depth.GLANCE))
    sentences: list[str] = []
    for uuid in uuids:
        gpu = find_gpu(snapshot, uuid)
        if isinstance(gpu, Unknown):
            sentences.append(f"whether GPU {uuid} is free is {gpu}")
        elif isinstance(gpu.holders, Unknown) or gpu.trouble is not None:
            sentences.append(f"whether GPU {gpu.label} is free is not known: {gpu.trouble or gpu.holders}")
        elif gpu.holders:
            named = [f"pid {holder.pid} ({_whose(holder)})" for holder in gpu.holders]
            sentences.append(f"GPU {gpu.label} is still held by {', '.join(named)}")
        else:
            unseen = unseen_memory_bytes(gpu)
            if not isinstance(unseen, Unknown) and unseen:
                sentences.append(f"{bytes_for_people(unseen)} on GPU {gpu.label} are still held by nobody visible")
    return sentences


def _whose(holder: Holder) -> str:
    user = "unknown" if isinstance(holder.user, Unknown) else printable(holder.user)
    return f"{user}: {'unknown' if isinstance(holder.command, Unknown) else program_name(holder.command)}"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
