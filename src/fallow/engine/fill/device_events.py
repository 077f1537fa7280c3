"""File events that wake the fill loop: opens of the device nodes of its GPUs, and writes to the claim folder."""

from collections.abc import Callable, Mapping, Sequence

from fallow.core.gpu import Gpu
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.machine.newcomers import Newcomers
from fallow.engine.machine.world import World
from fallow.readers.file_events import FileEvent, FileEvents

CLAIMS = "claims"
Attention = tuple[bool, frozenset[str]]
"""Which opens a filler yields to: whether to any open at all, and the programs that it ignores."""
Opened = Mapping[Attention, Mapping[str, Reason]]
"""By UUID which process is about to work on the GPU, for each kind of attention."""


class DeviceEvents:
    """Watches the files of all slots. Slots that yield to the same opens share one list of newcomers."""

    def __init__(self, world: World, is_ours: Callable[[int], bool], say: Callable[[str], None]) -> None:
        self.unwatched: frozenset[str] = frozenset()
        """The GPUs whose device nodes cannot be watched."""
        self._world = world
        self._is_ours = is_ours
        self._monotonic_s = world.clock.monotonic_s
        self._say = say
        self._opens = FileEvents()
        self._claim_writes = FileEvents()
        self._nodes: dict[str, str] = {}
        self._why_unwatched: dict[str, str] = {}
        self._newcomers: dict[Attention, tuple[dict[str, str], Newcomers]] = {}
        self._opened_uuids: set[str] = set()
        self._watches_claims = False

    @property
    def fds(self) -> tuple[int, ...]:
        """Return the descriptors that become readable at an event."""
        return (*self._opens.fds, *self._claim_writes.fds)

    def watch(self, slots: Sequence[FillerSlot]) -> None:
        """Watch the GPUs of these slots. What is known of newcomers to them is kept."""
        if slots and not self._watches_claims:
            self._claim_writes.watch_writes(CLAIMS, self._world.folder.path)
            self._watches_claims = True
        self._watch_nodes({str(gpu.uuid): gpu for slot in slots for gpu in slot.gpus})
        wanted: dict[Attention, dict[str, str]] = {}
        for slot in slots:
            watched = {uuid: self._nodes[uuid] for uuid in slot.uuids if uuid in self._nodes}
            wanted.setdefault(attention(slot), {}).update(watched)
        before, self._newcomers = self._newcomers, {}
        for kind, nodes in wanted.items():
            known = before.get(kind)
            if known is None or known[0] != nodes:
                eager, ignored = kind
                found = Newcomers(self._world.proc, nodes, self._is_ours, ignored, self._monotonic_s, eager=eager)
                known = (nodes, found)
                known[1].remember()
            self._newcomers[kind] = known

    def read(self, now_s: float, occupied: set[str]) -> FileEvent:
        """Return the events since the last call. An open of an occupied GPU starts the search for its process."""
        events = self._opens.read()
        self._opened_uuids |= events.came
        if events.came & occupied:
            for _, newcomers in self._newcomers.values():
                newcomers.note_open(now_s, events.came & occupied)
        if self._claim_writes.read().came:
            return FileEvent(events.came | {CLAIMS}, events.left)
        return events

    def opened(self, now_s: float) -> Opened:
        """Return the processes that are about to work on a GPU."""
        found = {kind: newcomers.look(now_s) for kind, (_, newcomers) in self._newcomers.items()}
        return {kind: who for kind, who in found.items() if who}

    def stop_search_unless(self, occupied: set[str]) -> None:
        """End the search for newcomers unless a GPU that was opened is occupied: searching would delay them."""
        if not self._opened_uuids & occupied:
            self._opened_uuids.clear()
            for _, newcomers in self._newcomers.values():
                newcomers.stop()

    def next_look_s(self, now_s: float) -> float | None:
        """Return when to look again, or None if there is no reason to."""
        due = [newcomers.next_look_s(now_s) for _, newcomers in self._newcomers.values()]
        return min((each for each in due if each is not None), default=None)

    def close(self) -> None:
        """Stop watching."""
        self._opens.close()
        self._claim_writes.close()

    def _watch_nodes(self, gpus: dict[str, Gpu]) -> None:
        news: dict[str, list[str]] = {}
        for uuid, gpu in gpus.items():
            if uuid in self._nodes or uuid in self._why_unwatched:
                continue
            path = f"{self._world.device_folder}/nvidia{gpu.minor}"
            why = self._why_not(gpu) or self._opens.watch_opens(uuid, path)
            if why is None:
                self._nodes[uuid] = path
            else:
                self._why_unwatched[uuid] = why
                if not self._world.simulated:  # where there are no nodes, nothing is missing
                    news.setdefault(why, []).append(gpu.label)
        self.unwatched = frozenset(self._why_unwatched)
        for why, labels in news.items():
            self._say(f"cannot watch opens of GPU {','.join(labels)} ({why}); polling instead")

    def _why_not(self, gpu: Gpu) -> str | None:
        if self._world.simulated:
            return "simulated ones have no device node"
        if gpu.mig is not None:
            return "an open does not tell one MIG instance from another"
        return f"its device node is {gpu.minor}" if isinstance(gpu.minor, Unknown) else None


def attention(slot: FillerSlot) -> Attention:
    """Return which opens this slot yields to."""
    return slot.spec.eager, frozenset(slot.spec.ignore)
