"""Find out whether a parked job may have its GPUs back: enough memory is free there, and nobody has claimed them."""

import os
from collections.abc import Sequence

from fallow.core.gpu import Gpu, Holder
from fallow.core.parked import ParkedJob
from fallow.core.ports import Depth
from fallow.core.units import bytes_for_people, printable, program_name
from fallow.core.unknown import Unknown, known
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import filler_pids

_MOST_NAMED = 4


def gpus_now(world: World) -> Sequence[Gpu]:
    """Look at the GPUs and who holds them."""
    return world.gpu_reader.describe(world.gpu_reader.look(Depth.HOLDERS)).gpus


def why_no_room_now(world: World, job: ParkedJob) -> str | None:
    """Look at the GPUs and the claims, and return why the job cannot come back now; None if it can."""
    return why_no_room(world, job, gpus_now(world))


def why_no_room(world: World, job: ParkedJob, gpus: Sequence[Gpu]) -> str | None:
    """Return why the job cannot come back now, and who is in its place; None if it can.

    Fillers are in nobody's way: they leave. Neither is our own claim, for another job that is being woken.
    """
    for uuid, needed in job.gpus:
        gpu = next((each for each in gpus if each.uuid == uuid), None)
        if gpu is None or gpu.trouble is not None:
            return f"GPU {uuid} is not to be seen" if gpu is None else f"GPU {gpu.label}: {gpu.trouble}"
        if isinstance(gpu.memory, Unknown):
            return f"how much memory of GPU {gpu.label} is free is {gpu.memory}"
        claim = claim_of(world, uuid)
        if isinstance(claim, Unknown):
            return f"who has claimed GPU {gpu.label} is {claim}"
        if claim is not None and claim.pid != os.getpid():
            return f"GPU {gpu.label} is {claim}"
        leaving = _held_by_fillers(world, gpu)
        if gpu.memory.free_bytes + leaving < needed:
            free, wanted = bytes_for_people(gpu.memory.free_bytes + leaving), bytes_for_people(needed)
            return f"GPU {gpu.label} has {free} free, and {wanted} are needed{_who(gpu)}"
    return None


def _held_by_fillers(world: World, gpu: Gpu) -> int:
    fillers = filler_pids(world, gpu)
    holders = () if isinstance(gpu.holders, Unknown) else gpu.holders
    return sum(known(holder.memory_bytes, 0) for holder in holders if holder.pid in fillers)


def _who(gpu: Gpu) -> str:
    """Return who holds the GPU, with as much of each command as everybody may read."""
    if isinstance(gpu.holders, Unknown):
        return f"; who is there is {gpu.holders}"
    named = [_named(holder) for holder in gpu.holders[:_MOST_NAMED]]
    more = len(gpu.holders) - len(named)
    return "; there is " + ", ".join([*named, *([f"and {more} more"] if more else [])]) if named else ""


def _named(holder: Holder) -> str:
    user = "somebody" if isinstance(holder.user, Unknown) else printable(holder.user)
    command = "unknown" if isinstance(holder.command, Unknown) else program_name(holder.command)
    size = "" if isinstance(holder.memory_bytes, Unknown) else f", {bytes_for_people(holder.memory_bytes)}"
    return f"{user}'s {command} (pid {holder.pid}{size})"
