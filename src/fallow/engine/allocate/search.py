"""Finds GPUs for a launch or a pick: it looks at them, chooses under the gate, and waits in line if it may.

The gate is held from reading what is reserved until the chosen GPUs are taken, so launches that come together do
not take GPUs from each other. A launch tries once before it joins the line. In line it tries when a claim ends or a
place is left, but asks the driver only if enough GPUs are nobody's before it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from fallow.actuators.claims.folder import FileRefused
from fallow.actuators.claims.waitline import LAST, FolderWatch, Place
from fallow.core.errors import NotEnoughGpus, WrongUsage
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Depth, Links
from fallow.core.reasons import Reason
from fallow.core.reservations import Note, Reservations
from fallow.core.selection import named_and_visible, names_by_index, select, visible
from fallow.core.units import bytes_for_people
from fallow.core.value import replace, value
from fallow.engine.allocate.own_launch import refuse_to_wait_for_ourselves
from fallow.engine.allocate.refused import gpus_in_words, not_enough, refused_file, way_to_ask
from fallow.engine.machine.claims_seen import line, reservations_of
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import without_fillers
from fallow.policies.pick import Choice, Order, Wanted, choose, depth_needed, eligible, refusal

FOREVER = math.inf
_CHECK_S = 1.0  # for changes of the folder that inotify did not report
_BUSY_S = 0.25  # between looks at GPUs that are used without a claim
_AFTER_A_CHANGE_S = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08)  # the event comes before the lock is free
Say = Callable[[str], None]
Take = Callable[[Sequence[Gpu]], bool]
"""Takes GPUs, all or none, and returns whether it did."""


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


class Search:
    """One search: its request, its place in line, and its last look at the GPUs."""

    def __init__(
        self,
        world: World,
        request: Request,
        say: Say,
        take: Take,
        give_back: Callable[[], None] | None = None,
        *,
        note: Callable[[], Note],
    ) -> None:
        """Without `give_back` it is a pick, which takes nothing: launches go first, and it does not look again."""
        self._world = world
        self._say = say
        self._take = take
        self._give_back = give_back
        self._note = note
        self._place: Place | None = None
        self._shut: dict[str, Reason] = {}
        self._request = request
        self._look()
        _warn_of_indices(world, self._snapshot, say)

    def find(self) -> tuple[Gpu, ...]:
        """Return GPUs that were taken; wait for them in line if the request says so. Raise NotEnoughGpus."""
        choice = self._attempt()
        wait_s = self._request.wait_s
        if not choice.gpus and wait_s is not None and len(self._awaited()) >= self._request.wanted.count:
            return self._wait(wait_s)
        return self._given(choice, None)  # nor would a wait for GPUs that do not work help

    def refuse(self, gpu: Gpu, error: FileRefused) -> None:
        """Leave out a GPU whose file cannot be used."""
        self._shut[gpu.label] = refused_file(error)

    def _look(self) -> None:
        """Look at the GPUs; new ones may have appeared."""
        world = self._world
        self._snapshot = world.gpu_reader.look(self._request.depth)
        self._request = _counted(self._snapshot, self._request, world.visible_devices)
        self._allowed, self._hidden = _candidates(self._snapshot, self._request, world.visible_devices)
        self._links = _links_that_matter(world, self._allowed, self._request.wanted)
        if self._place is not None:
            self._place.want(str(gpu.uuid) for gpu in self._awaited())

    def _attempt(self) -> Choice:
        """Choose by the last look, take what was chosen, and look again; a choice without GPUs says why."""
        while True:
            with self._world.folder.gate(self._world.clock):
                reservations = self._reservations()
                choice = self._choose(reservations)
                taken = bool(choice.gpus) and self._take(choice.gpus)
            if not choice.gpus or (taken and self._give_back is None):
                return choice
            if taken and self._give_back is not None:
                if self._is_still_good(choice.gpus, reservations):
                    return choice
                self._give_back()

    def _reservations(self) -> dict[str, Reservations]:
        """Return what is reserved of each GPU before this launch."""
        is_pick = self._give_back is None
        before = LAST if is_pick or self._place is None else self._place.ticket
        ours = {gpu.uuid for gpu in self._allowed}
        waiters = line(self._world, before)
        self._ahead = [waiter for waiter in waiters if not waiter.is_pick and not ours.isdisjoint(waiter.gpus)]
        found: dict[str, Reservations] = {}
        for gpu in self._allowed:
            try:
                if isinstance(gpu.uuid, str):
                    found[gpu.uuid] = reservations_of(self._world, gpu.uuid, self._ahead)
            except FileRefused as error:
                self.refuse(gpu, error)
        return found

    def _choose(self, reservations: Mapping[str, Reservations]) -> Choice:
        """Return what the last look and the reservations of others leave for us."""
        fit = [gpu for gpu in self._allowed if gpu.label not in self._shut]
        free, adjusted = self._without_fillers(fit, reservations)
        choice = choose(free, self._request.wanted, adjusted, self._links, self._world.chance)
        return replace(choice, refused={**choice.refused, **self._shut})

    def _without_fillers(
        self, gpus: Sequence[Gpu], reservations: Mapping[str, Reservations]
    ) -> tuple[tuple[Gpu, ...], dict[str, Reservations]]:
        return without_fillers(self._world, gpus, reservations, of_all_users=self._give_back is not None)

    def _is_still_good(self, gpus: Sequence[Gpu], reservations: Mapping[str, Reservations]) -> bool:
        """Look again: a job without fallow may have started on GPUs that we have claimed."""
        self._look()
        now = {gpu.uuid: gpu for gpu in self._without_fillers(self._allowed, reservations)[0]}
        wanted = self._request.wanted
        return all(
            gpu.uuid in now and refusal(now[gpu.uuid], wanted, reservations[str(gpu.uuid)]) is None for gpu in gpus
        )

    def _wait(self, wait_s: float) -> tuple[Gpu, ...]:
        clock, folder = self._world.clock, self._world.folder
        until_s = clock.monotonic_s() + wait_s
        awaited = self._awaited()
        refuse_to_wait_for_ourselves(self._world, awaited, self._request.wanted)
        uuids = [str(gpu.uuid) for gpu in awaited]
        place = Place(folder, clock, self._note(), uuids, is_pick=self._give_back is None)
        with closing(place) as self._place, closing(FolderWatch(folder, clock)) as watch:
            changed = False
            while True:
                for pause_s in _AFTER_A_CHANGE_S if changed else (0.0,):
                    clock.sleep(pause_s)
                    our_turn = self._could_be_our_turn()
                    if our_turn:
                        self._look()
                        choice = self._attempt()
                        if choice.gpus:
                            return choice.gpus
                    elif len(self._ahead) > 1:
                        break  # the change was for one of them
                left_s = until_s - clock.monotonic_s()
                if left_s <= 0:
                    self._look()  # the last look may be hours old
                    return self._given(self._attempt(), wait_s)
                self._say(self._waiting())
                changed = watch.wait(min(left_s, _BUSY_S if our_turn else _CHECK_S))

    def _could_be_our_turn(self) -> bool:
        """Return whether enough GPUs are nobody's before us; only then is it worth asking the driver."""
        self._shut = {}
        wanted = self._request.wanted
        found = self._reservations().values()
        ours = [
            each.ahead is None and (each.claim is None or (wanted.shared and each.claim.shared)) for each in found
        ]
        return sum(ours) >= wanted.count

    def _awaited(self) -> list[Gpu]:
        """Return the GPUs that would do, whatever runs on them now."""
        fit = [gpu for gpu in self._allowed if eligible(gpu, self._request.wanted) and gpu.trouble is None]
        return [gpu for gpu in fit if isinstance(gpu.uuid, str) and gpu.label not in self._shut]

    def _waiting(self) -> str:
        place = f"{len(self._ahead)} ahead" if self._ahead else "first in line"
        return f"waiting for {gpus_in_words(self._request.wanted.count)}, {place}{way_to_ask(self._awaited())}"

    def _given(self, choice: Choice, waited_s: float | None) -> tuple[Gpu, ...]:
        """Return the GPUs of a choice; raise NotEnoughGpus if there are none."""
        if choice.gpus:
            return choice.gpus
        refused = {**self._hidden, **choice.refused}
        available = len(self._allowed) - len(choice.refused)
        raise not_enough(self._world, self._snapshot, self._request.wanted.count, available, refused, waited_s)


def _counted(snapshot: Snapshot, request: Request, visible_devices: str | None) -> Request:
    """Return the request with its count: a list means all that it names, and `all` those that are visible."""
    if not request.all_named or request.gpus is None:
        return request
    named = select(request.gpus, snapshot.gpus)
    if request.gpus.strip() == "all":
        named = visible(visible_devices, snapshot.gpus)
    return replace(request, wanted=replace(request.wanted, count=max(1, len(named))), all_named=False)


def _candidates(
    snapshot: Snapshot, request: Request, visible_devices: str | None
) -> tuple[tuple[Gpu, ...], dict[str, Reason]]:
    """Return the GPUs that may be given, and by label why the others may not; raise an error if they are too few."""
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
        words = {label: str(why) for label, why in refused.items()}
        raise NotEnoughGpus(f"{gpus_in_words(request.wanted.count)} wanted, and {given}", words)
    if request.suits is not None:
        refused |= {gpu.label: Reason("not_suited") for gpu in allowed if not request.suits(gpu)}
        allowed = tuple(gpu for gpu in allowed if gpu.label not in refused)
    return allowed, refused


def _too_many(request: Request, there: int) -> str:
    wanted = request.wanted
    among = "" if request.gpus is None else f" among --gpus {request.gpus}"
    kind = "" if wanted.name is None else f" named {wanted.name!r}"
    if wanted.min_free_bytes:
        kind += f" with {bytes_for_people(wanted.min_free_bytes)} of memory"
    if not there and kind:
        return f"this machine has no GPU{kind}{among}"
    return f"{gpus_in_words(wanted.count)} wanted, and this machine has {there}{kind}{among}"


def _links_that_matter(world: World, gpus: Sequence[Gpu], wanted: Wanted) -> Links:
    """Return how the GPUs are connected; they are read only if several are to be chosen well."""
    if wanted.order is Order.BEST and 1 < wanted.count < len(gpus):
        return world.gpu_reader.links(gpus)
    return {}


def _warn_of_indices(world: World, snapshot: Snapshot, say: Say) -> None:
    """Warn of indices in CUDA_VISIBLE_DEVICES if CUDA would count several models fastest first."""
    models = {gpu.name for gpu in snapshot.gpus if isinstance(gpu.name, str)}
    in_pci_order = world.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if len(models) > 1 and not in_pci_order and names_by_index(world.visible_devices or ""):
        say("CUDA_VISIBLE_DEVICES has indices, which are read in PCI order here; CUDA_DEVICE_ORDER says otherwise")
