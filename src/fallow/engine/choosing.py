"""From a request to GPUs: who may be asked at all, what is promised, and a pick that leaves a reservation."""

import math
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.claims import CardFile, gate
from fallow.actuators.line import promises
from fallow.core.errors import NotEnoughGpus, WrongUsage
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Depth, Links
from fallow.core.selection import names_by_index, select, visible
from fallow.core.units import bytes_for_people, duration_for_people, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.making_way import without_fillers
from fallow.engine.world import World
from fallow.policies.pick import Choice, Order, Wanted, choose, depth_needed, eligible

FOREVER = math.inf
_LOOK_AGAIN_S = 0.25


@value
class Request:
    """What a person asked for, and how long they would wait for it (None: not at all)."""

    wanted: Wanted
    gpus: str | None = None
    wait_s: float | None = None
    suits: Callable[[Gpu], bool] | None = None
    """A test of one's own, beside what is wanted."""

    @property
    def depth(self) -> Depth:
        """How closely to look: whoever brings a test may ask for any reading."""
        return depth_needed(self.wanted) if self.suits is None else Depth.LOOK


@value
class Candidates:
    """The GPUs that may be given, and why the others may not."""

    gpus: tuple[Gpu, ...]
    refused: Mapping[str, str]


def candidates(snapshot: Snapshot, request: Request, visible_devices: str | None) -> Candidates:
    """Those that the person's list and an outer CUDA_VISIBLE_DEVICES leave; more than there are is an error."""
    listed = snapshot.gpus if request.gpus is None else select(request.gpus, snapshot.gpus)
    could = [gpu for gpu in listed if eligible(gpu, request.wanted)]
    if request.wanted.count > len(could):
        raise WrongUsage(_too_many(request, len(could)))
    seen = {gpu.label for gpu in visible(visible_devices, snapshot.gpus)}
    named = {gpu.label for gpu in listed}
    refused = {gpu.label: "not among --gpus" for gpu in snapshot.gpus if gpu.label not in named}
    refused |= {gpu.label: "hidden by CUDA_VISIBLE_DEVICES" for gpu in listed if gpu.label not in seen}
    allowed = tuple(gpu for gpu in listed if gpu.label in seen)
    if request.wanted.count > len(allowed):
        given = f"CUDA_VISIBLE_DEVICES={visible_devices} leaves {len(allowed)}"
        raise NotEnoughGpus(f"{_gpus(request.wanted.count)} wanted, and {given}", refused)
    if request.suits is not None:
        refused |= {gpu.label: "the selector does not take it" for gpu in allowed if not request.suits(gpu)}
        allowed = tuple(gpu for gpu in allowed if gpu.label not in refused)
    return Candidates(allowed, refused)


def pick(
    world: World, request: Request, tell: Callable[[str], None] = lambda _: None, *, reserve: bool = True
) -> tuple[Gpu, ...]:
    """Idle GPUs, softly reserved so that others who pick now get others, unless that is not wanted."""
    deadline_s = world.clock.monotonic_s() + (request.wait_s or 0.0)
    while True:
        snapshot = world.eyes.look(request.depth)
        tell_of_indices(world, snapshot, tell)
        allowed = candidates(snapshot, request, world.visible_devices)
        links = links_that_matter(world, allowed.gpus, request.wanted)
        with gate(world.folder, world.clock.monotonic_s, world.clock.sleep):
            now_s = world.clock.monotonic_s()
            cards = {
                gpu.uuid: CardFile(world.folder.open(gpu.uuid)) for gpu in allowed.gpus if isinstance(gpu.uuid, str)
            }
            try:
                promised = {uuid: promises(world.folder, card, now_s) for uuid, card in cards.items()}
                free = without_fillers(world, allowed.gpus, promised)
                choice = choose(free, request.wanted, promised, links, world.chance)
                for gpu in choice.gpus if reserve else ():
                    cards[str(gpu.uuid)].reserve(now_s)
            finally:
                for card in cards.values():
                    card.close()
        if choice.gpus:
            return choice.gpus
        left_s = deadline_s - world.clock.monotonic_s()
        if left_s <= 0:
            raise not_enough(world, snapshot, request, allowed, choice)
        tell(f"waiting for {_gpus(request.wanted.count)}")
        world.clock.sleep(min(_LOOK_AGAIN_S, left_s))


def tell_of_indices(world: World, snapshot: Snapshot, tell: Callable[[str], None]) -> None:
    """On a machine with several models CUDA counts its cards fastest first, unless it is told otherwise."""
    models = {gpu.name for gpu in snapshot.gpus if isinstance(gpu.name, str)}
    in_pci_order = world.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if len(models) > 1 and not in_pci_order and names_by_index(world.visible_devices or ""):
        tell("CUDA_VISIBLE_DEVICES has indices, which are read in PCI order here; CUDA_DEVICE_ORDER says otherwise")


def links_that_matter(world: World, gpus: Sequence[Gpu], wanted: Wanted) -> Links:
    """How the GPUs are connected, asked only where several are to be chosen well."""
    if wanted.order is Order.BEST and 1 < wanted.count < len(gpus):
        return world.eyes.links(gpus)
    return {}


def not_enough(
    world: World, snapshot: Snapshot, request: Request, allowed: Candidates, choice: Choice
) -> NotEnoughGpus:
    """The error that says why each GPU was refused."""
    free = len(allowed.gpus) - len(choice.refused)
    waited = f" after waiting {duration_for_people(request.wait_s)}" if request.wait_s else ""
    refused = _with_names(world, snapshot, {**allowed.refused, **choice.refused})
    in_order = {gpu.label: refused[gpu.label] for gpu in snapshot.gpus if gpu.label in refused}
    return NotEnoughGpus(f"{_gpus(request.wanted.count)} wanted, {free} to be had{waited}", in_order)


def _with_names(world: World, snapshot: Snapshot, refused: Mapping[str, str]) -> dict[str, str]:
    """Reasons that name a pid get the user and the command: that is whom to talk to."""
    told: dict[str, str] = dict(refused)
    for gpu in world.eyes.describe(snapshot).gpus:
        why = told.get(gpu.label)
        if why is None or isinstance(gpu.holders, Unknown) or not why.startswith("held by pid"):
            continue
        first = gpu.holders[0]
        if isinstance(first.user, str) and isinstance(first.command, str):
            told[gpu.label] = f"{why} ({first.user}: {shortened(first.command)})"
    return told


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
