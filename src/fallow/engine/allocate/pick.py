"""Picks GPUs for a request: those that are allowed, idle and not claimed. A pick leaves a soft reservation."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from fallow.actuators.claims.claims import ClaimFile, gate
from fallow.actuators.claims.folder import FileRefused
from fallow.actuators.claims.queue import Queue, QueueEntry, sweep
from fallow.core.errors import FallowError, NotEnoughGpus, WrongUsage
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Depth, Links
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim, Reservations
from fallow.core.selection import named_and_visible, names_by_index, select, visible
from fallow.core.units import bytes_for_people, duration_for_people, program_name
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.allocate.own_launch import refuse_to_wait_for_ourselves
from fallow.engine.machine.claim_holders import awake, claim_on, lives, stands, waiter_in_words
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import without_fillers
from fallow.policies.pick import Choice, Order, Wanted, choose, depth_needed, eligible
from fallow.readers.proc import user_name

FOREVER = math.inf
_LOOK_AGAIN_S = 0.25
_PATIENCE_S = 2.0


@value
class Request:
    """What a person asked for, and how long they would wait for it (None: not at all)."""

    wanted: Wanted
    gpus: str | None = None
    all_named: bool = False
    """Whether all that `gpus` names are wanted; the count of `wanted` is ignored then."""
    wait_s: float | None = None
    suits: Callable[[Gpu], bool] | None = None
    """A test by the caller, in addition to what is wanted."""

    @property
    def depth(self) -> Depth:
        """Return how much to read of the GPUs: a test by the caller may need any reading."""
        return depth_needed(self.wanted) if self.suits is None else Depth.ALL


@value
class Candidates:
    """The GPUs that may be given, and why the others may not."""

    gpus: tuple[Gpu, ...]
    refused: Mapping[str, Reason]


def counted(snapshot: Snapshot, request: Request, visible_devices: str | None) -> Request:
    """Return the request with its count: a list means all that it names, and `all` those that are visible."""
    if not request.all_named or request.gpus is None:
        return request
    named = select(request.gpus, snapshot.gpus)
    if request.gpus.strip() == "all":
        named = visible(visible_devices, snapshot.gpus)
    return replace(request, wanted=replace(request.wanted, count=max(1, len(named))), all_named=False)


def candidates(snapshot: Snapshot, request: Request, visible_devices: str | None) -> Candidates:
    """Return the GPUs that --gpus and CUDA_VISIBLE_DEVICES allow; raise an error if these are too few."""
    allowed, hidden_ones = named_and_visible(request.gpus, visible_devices, snapshot.gpus)
    listed = (*allowed, *hidden_ones)
    could = [gpu for gpu in listed if eligible(gpu, request.wanted)]
    if request.wanted.count > len(could):
        raise WrongUsage(_too_many(request, len(could)))
    named = {gpu.label for gpu in listed}
    refused = {gpu.label: Reason("not_listed") for gpu in snapshot.gpus if gpu.label not in named}
    refused |= {gpu.label: Reason("hidden") for gpu in hidden_ones}
    if request.wanted.count > len(allowed):
        given = f"CUDA_VISIBLE_DEVICES={visible_devices} leaves {len(allowed)}"
        raise NotEnoughGpus(f"{_gpus(request.wanted.count)} wanted, and {given}", _in_words(refused))
    if request.suits is not None:
        refused |= {gpu.label: Reason("not_suited") for gpu in allowed if not request.suits(gpu)}
        allowed = tuple(gpu for gpu in allowed if gpu.label not in refused)
    return Candidates(allowed, refused)


class PickInLine:
    """The place of a pick that waits, in the queue of each GPU that would do. Launches that claim GPUs go first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._entry: QueueEntry | None = None

    def join(self, gpus: Sequence[Gpu]) -> None:
        """Join these queues too. Without a place the pick goes on waiting."""
        world, clock, pid = self._world, self._world.clock, os.getpid()
        if self._entry is None:
            stat = world.proc.stat(pid)
            birth = None if stat is None else stat.birth
            label = Claim(False, pid, world.user, "fallow pick", clock.wall_s(), birth, yields=True)
            self._entry = QueueEntry(
                world.folder, label, clock.monotonic_s, clock.sleep, stands(world), awake(world), in_passing=False
            )
        with suppress(FallowError):
            self._entry.join([gpu.uuid for gpu in gpus if isinstance(gpu.uuid, str)])

    @property
    def is_in_line(self) -> bool:
        """Return whether it has joined a queue."""
        return self._entry is not None

    def leave(self) -> None:
        """Leave all queues."""
        if self._entry is not None:
            self._entry.leave()


def pick(
    world: World, request: Request, say: Callable[[str], None] | None = None, *, reserve: bool = True
) -> tuple[Gpu, ...]:
    """Return idle GPUs. With `reserve` they are softly reserved, so that the next pick gives others."""
    entry = PickInLine(world)
    if reserve:
        sweep(world.folder, lives(world))
    try:
        try:
            return _pick(world, request, say, entry, reserve=reserve)
        finally:
            entry.leave()
    finally:
        entry.leave()  # again: a signal may have broken off the first time


def _pick(
    world: World, request: Request, say: Callable[[str], None] | None, entry: PickInLine, *, reserve: bool
) -> tuple[Gpu, ...]:
    say = say or (lambda _: None)
    deadline_s = world.clock.monotonic_s() + (request.wait_s or 0.0)
    patience = {} if request.wait_s is None else {"patience_s": min(_PATIENCE_S, request.wait_s)}
    while True:
        snapshot = world.gpu_reader.look(request.depth)
        warn_of_indices(world, snapshot, say)
        request = counted(snapshot, request, world.visible_devices)
        allowed = candidates(snapshot, request, world.visible_devices)
        links = links_that_matter(world, allowed.gpus, request.wanted)
        with gate(world.folder, world.clock.monotonic_s, world.clock.sleep, **patience) as our_turn:
            if not our_turn:
                patience = {"patience_s": 0.0}  # once is enough
                say(f"somebody keeps the gate of {world.folder.path} shut")
            choice = _choose(world, request, allowed, links, reserve=reserve)
        if choice.gpus:
            return choice.gpus
        left_s = deadline_s - world.clock.monotonic_s()
        if left_s <= 0:
            raise not_enough(world, snapshot, request, allowed, choice)
        fit = [gpu for gpu in allowed.gpus if eligible(gpu, request.wanted) and gpu.trouble is None]
        if not entry.is_in_line:
            refuse_to_wait_for_ourselves(world, fit, request.wanted)
        entry.join(fit)
        say(f"waiting for {_gpus(request.wanted.count)}{way_to_ask(fit)}")
        world.clock.sleep(min(_LOOK_AGAIN_S, left_s))


def _choose(world: World, request: Request, allowed: Candidates, links: Links, *, reserve: bool) -> Choice:
    """Choose among the candidates by the reservations of each, and reserve what is chosen."""
    now_s = world.clock.monotonic_s()
    files: dict[str, ClaimFile] = {}
    shut: dict[str, Reason] = {}
    queue = Queue(world.folder, stands(world), awake(world))
    try:
        for gpu in allowed.gpus:
            try:
                if isinstance(gpu.uuid, str) and (fd := world.folder.peek(gpu.uuid)) is not None:
                    files[gpu.uuid] = ClaimFile(fd)
            except FileRefused as error:
                shut[gpu.label] = refused_file(error)
        reservations = {uuid: _soft(queue.reservations(file, now_s)) for uuid, file in files.items()}
        fit = [gpu for gpu in allowed.gpus if gpu.label not in shut]
        free, reservations = without_fillers(world, fit, reservations, of_all_users=False)
        choice = choose(free, request.wanted, reservations, links, world.chance)
        for gpu in choice.gpus if reserve else ():
            _reserve(world, str(gpu.uuid), now_s)
    finally:
        for file in files.values():
            file.close()
    return replace(choice, refused={**choice.refused, **shut})


def _reserve(world: World, uuid: str, now_s: float) -> None:
    file = ClaimFile(world.folder.open(uuid))
    try:
        file.reserve(now_s)
    finally:
        file.close()


def _soft(reservations: Reservations) -> Reservations:
    """Return reservations by which a GPU that a launch tries just now is avoided, not refused."""
    return replace(reservations, ahead=False, reserved=True) if reservations.in_passing else reservations


def refused_file(error: FileRefused) -> Reason:
    """Return why a GPU with an unusable claim file is refused, and whose file it is."""
    whose = "" if error.uid is None else f"; it is {user_name(error.uid)}'s"
    return Reason("file_refused", error=f"{error}{whose}")


def warn_of_indices(world: World, snapshot: Snapshot, say: Callable[[str], None]) -> None:
    """Warn of indices in CUDA_VISIBLE_DEVICES if CUDA would count several models fastest first."""
    models = {gpu.name for gpu in snapshot.gpus if isinstance(gpu.name, str)}
    in_pci_order = world.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if len(models) > 1 and not in_pci_order and names_by_index(world.visible_devices or ""):
        say("CUDA_VISIBLE_DEVICES has indices, which are read in PCI order here; CUDA_DEVICE_ORDER says otherwise")


def links_that_matter(world: World, gpus: Sequence[Gpu], wanted: Wanted) -> Links:
    """Return how the GPUs are connected; they are read only if several are to be chosen well."""
    if wanted.order is Order.BEST and 1 < wanted.count < len(gpus):
        return world.gpu_reader.links(gpus)
    return {}


def not_enough(
    world: World, snapshot: Snapshot, request: Request, allowed: Candidates, choice: Choice
) -> NotEnoughGpus:
    """The error that says why each GPU was refused."""
    free = len(allowed.gpus) - len(choice.refused)
    waited = f" after waiting {duration_for_people(request.wait_s)}" if request.wait_s else ""
    refused = _with_names(world, snapshot, {**allowed.refused, **choice.refused})
    in_order = {gpu.label: refused[gpu.label] for gpu in snapshot.gpus if gpu.label in refused}
    return NotEnoughGpus(f"need {_gpus(request.wanted.count)}, {free} available{waited}", in_order)


def _with_names(world: World, snapshot: Snapshot, refused: Mapping[str, Reason]) -> dict[str, str]:
    """Return the refusals in words, with the user and the program that has the GPU: whom to talk to."""
    sentences = _in_words(refused)
    for gpu in world.gpu_reader.describe(snapshot).gpus:
        why = refused.get(gpu.label)
        if why is not None:
            sentences[gpu.label] = _with_name(world, gpu, why)
    return sentences


def _with_name(world: World, gpu: Gpu, why: Reason) -> str:
    if why.kind == "held" and not isinstance(gpu.holders, Unknown) and gpu.holders:
        first = gpu.holders[0]
        if isinstance(first.user, str) and isinstance(first.command, str):
            return f"{why} ({first.user}: {program_name(first.command)})"
    if why.kind in ("taken", "in_line"):
        return _reserved_for(world, gpu, why)
    return str(why)


def _reserved_for(world: World, gpu: Gpu, why: Reason) -> str:
    """Return who has claimed a GPU or is first in its queue; if that is over by now, only that."""
    try:
        fd = world.folder.peek(str(gpu.uuid))
    except FallowError:
        return str(why)
    if fd is None:
        return str(Reason("given_back"))
    file = ClaimFile(fd)
    try:
        claim = claim_on(world, file)
        if claim is not None:
            return str(claim)
        waiting = (
            Queue(world.folder, stands(world), awake(world)).reservations(file, world.clock.monotonic_s()).waiting
        )
        if waiting is None or waiting.pid == os.getpid():
            return str(Reason("given_back"))
        return f"{waiter_in_words(waiting)} came earlier and waits for it"
    finally:
        file.close()


def way_to_ask(gpus: Sequence[Gpu]) -> str:
    """Return how to ask what happens on the GPUs that a launch waits for, to be added to what it says of the wait."""
    if not gpus:
        return ""
    return f"; fallow why {gpus[0].label} says what happens on {'it' if len(gpus) == 1 else 'one of them'}"


def _in_words(refused: Mapping[str, Reason]) -> dict[str, str]:
    return {label: str(why) for label, why in refused.items()}


def _too_many(request: Request, there: int) -> str:
    wanted = request.wanted
    among = "" if request.gpus is None else f" among --gpus {request.gpus}"
    kind = "" if wanted.name is None else f" named {wanted.name!r}"
    if wanted.min_free_bytes:
        kind += f" with {bytes_for_people(wanted.min_free_bytes)} of memory"
    if not there and kind:
        return f"this machine has no GPU{kind}{among}"
    return f"{_gpus(wanted.count)} wanted, and this machine has {there}{kind}{among}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
