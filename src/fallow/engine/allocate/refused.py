"""Says why a launch or pick got no GPUs: who has each, as of now, so that a person knows whom to ask."""

import os
from collections.abc import Mapping, Sequence

from fallow.actuators.claims.folder import FileRefused
from fallow.core.errors import FallowError, NotEnoughGpus
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people, program_name
from fallow.core.unknown import Unknown
from fallow.engine.machine.claims_seen import line, seen_reservations, waiter_in_words
from fallow.engine.machine.world import World
from fallow.readers.accounts import user_name


def not_enough(
    world: World,
    snapshot: Snapshot,
    count: int,
    available: int,
    refused: Mapping[str, Reason],
    waited_s: float | None,
) -> NotEnoughGpus:
    """Return the error that says why each GPU was refused."""
    waited = f" after waiting {duration_for_people(waited_s)}" if waited_s else ""
    gpus = world.gpu_reader.describe(snapshot).gpus
    words = {gpu.label: _in_words(world, gpu, refused[gpu.label]) for gpu in gpus if gpu.label in refused}
    return NotEnoughGpus(f"need {gpus_in_words(count)}, {available} available{waited}", words)


def refused_file(error: FileRefused) -> Reason:
    """Return why a GPU with an unusable claim file is refused, and whose file it is."""
    whose = "" if error.uid is None else f"; it is {user_name(error.uid)}'s"
    return Reason("file_refused", error=f"{error}{whose}")


def way_to_ask(gpus: Sequence[Gpu]) -> str:
    """Return how to ask what happens on the GPUs that a launch waits for, to be added to what it says of the wait."""
    if not gpus:
        return ""
    return f"; fallow why {gpus[0].label} says what happens on {'it' if len(gpus) == 1 else 'one of them'}"


def gpus_in_words(count: int) -> str:
    """Return `1 GPU`, or `2 GPUs`."""
    return "1 GPU" if count == 1 else f"{count} GPUs"


def _in_words(world: World, gpu: Gpu, why: Reason) -> str:
    """Return a refusal in words, with the user and the program that has the GPU."""
    if why.kind in ("taken", "in_line"):
        return _reserved_for(world, str(gpu.uuid), why)
    if why.kind == "held" and not isinstance(gpu.holders, Unknown) and gpu.holders:
        first = gpu.holders[0]
        if isinstance(first.user, str) and isinstance(first.command, str):
            return f"{why} ({first.user}: {program_name(first.command)})"
    return str(why)


def _reserved_for(world: World, uuid: str, why: Reason) -> str:
    """Return who has claimed a GPU or is first in its line; if that is over by now, only that."""
    try:
        claim = seen_reservations(world, uuid).claim
    except FallowError:
        return str(why)
    if claim is not None:
        return str(claim)
    others = (waiter for waiter in line(world) if not waiter.is_pick and waiter.note.pid != os.getpid())
    first = next((waiter for waiter in others if uuid in waiter.gpus), None)
    if first is None:
        return str(Reason("given_back"))
    return f"{waiter_in_words(first)} came earlier and waits for it"
