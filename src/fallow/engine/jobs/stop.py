"""Send signals to the process trees of a job, and check that its GPUs are free again afterwards."""

import signal
from collections.abc import Iterable

from fallow.actuators.process.signals import Handle, untouchable
from fallow.actuators.process.tree import JobTree
from fallow.core.actions import Ask, Kill
from fallow.core.activity import unseen_memory_bytes
from fallow.core.findings import Outcome
from fallow.core.gpu import Holder
from fallow.core.job import find_gpu
from fallow.core.ports import Depth
from fallow.core.process import Process
from fallow.core.units import bytes_for_people, printable, program_name
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World
from fallow.readers.proc import Proc

_MEMORY_IS_BACK_WITHIN_S = 5.0
_LOOK_AGAIN_S = 0.1
_MOST_NAMED = 5
_SPARED = {"ignores": "ignores it", "default": "does not catch it"}


def way_of_signals(action: Ask | Kill) -> str:
    """Return what an action on processes does, after "would"."""
    if isinstance(action, Kill):
        return "kill what is left of the job"
    return f"send SIG{action.signal} to every process of the job"


def ask_tree(tree: JobTree, name: str) -> Outcome:
    """Send the polite signal to every process, children first."""
    asked = tree.ask(signal.Signals[f"SIG{name}"])
    return Outcome(asked > 0, f"SIG{name} to {_many(asked)}")


def warn_by_signal(proc: Proc, processes: Iterable[Process], name: str) -> Outcome:
    """Send a signal to those processes that catch it; the others would die of it, or not notice.

    A process that becomes another program between the look and the signal may still die of it; that takes
    microseconds, and nothing in the kernel closes the gap.
    """
    number, never = signal.Signals[f"SIG{name}"], untouchable(proc)
    got, spared = 0, []
    for process in processes:
        handle = None if process.pid in never else Handle.open(proc, process, never)
        if handle is None:
            continue
        with handle:
            does = proc.disposition(process.pid, number)
            if does == "catches" and handle.send(number):
                got += 1
            elif does is not None and not handle.ended():
                spared.append(f"pid {process.pid}, which {_SPARED.get(does, 'may not be signalled')}")
    more = f" and {len(spared) - _MOST_NAMED} more" if len(spared) > _MOST_NAMED else ""
    not_to = f"; not to {', '.join(spared[:_MOST_NAMED])}{more}" if spared else ""
    return Outcome(got > 0, f"SIG{name} to {_many(got)}{not_to}")


def kill_tree(tree: JobTree, for_s: float) -> Outcome:
    """Send SIGKILL to what is left, for so long until it is gone; 0 sends it once and waits for nothing."""
    survivors = tree.kill(for_s)
    if survivors:
        return Outcome(False, "; ".join(survivors))
    return Outcome(True, "nobody is left")


def _many(count: int) -> str:
    return f"{count} processes" if count > 1 else "1 process" if count else "no process"


def who_still_holds(world: World, uuids: tuple[str, ...]) -> list[str]:
    """Return what is still on the GPUs of a job that has ended, when the driver has had time to free them."""
    until_s = world.clock.monotonic_s() + _MEMORY_IS_BACK_WITHIN_S
    while True:
        left = _left(world, uuids)
        if not left or world.clock.monotonic_s() >= until_s:
            return left
        world.clock.sleep(_LOOK_AGAIN_S)


def _left(world: World, uuids: tuple[str, ...]) -> list[str]:
    snapshot = world.gpu_reader.describe(world.gpu_reader.look(Depth.HOLDERS))
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
                sentences.append(
                    f"{bytes_for_people(unseen)} on GPU {gpu.label} are still held by no visible process"
                )
    return sentences


def _whose(holder: Holder) -> str:
    user = "unknown" if isinstance(holder.user, Unknown) else printable(holder.user)
    return f"{user}: {'unknown' if isinstance(holder.command, Unknown) else program_name(holder.command)}"
