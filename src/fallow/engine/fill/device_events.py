"""Hearing whoever comes: opens of the device nodes of cards that are to be filled, and writes to claims."""

from collections.abc import Callable, Mapping, Sequence

from fallow.core.gpu import Gpu
from fallow.core.unknown import Unknown
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.machine.newcomers import Newcomers
from fallow.engine.machine.world import World
from fallow.readers.file_events import FileEvent, FileEvents

CLAIMS = "claims"
_CLAIMS_EVERY_S = 0.02
Attention = tuple[bool, frozenset[str]]
"""What a filler minds of an open: whether any will do, and which programs it ignores."""
Opened = Mapping[Attention, Mapping[str, str]]
"""Who is about to work on which GPU, in words by UUID."""


class DeviceEvents:
    """The ears of all places. Fillers that mind the same things share one list of who is near."""

    def __init__(self, world: World, is_ours: Callable[[int], bool], tell: Callable[[str], None]) -> None:
        self.deaf: frozenset[str] = frozenset()
        """GPUs whose opens cannot be heard."""
        self._world = world
        self._is_ours = is_ours
        self._tell = tell
        self._opens = FileEvents()
        self._claim_writes = FileEvents()
        self._claims_due_s = 0.0
        self._nodes: dict[str, str] = {}
        self._why_deaf: dict[str, str] = {}
        self._newcomers: dict[Attention, tuple[dict[str, str], Newcomers]] = {}
        self._visited: set[str] = set()
        self._listens_for_claims = False

    def fds(self, now_s: float) -> tuple[int, ...]:
        """What becomes readable when something is heard that is to be heard now."""
        return self._opens.fds if now_s < self._claims_due_s else (*self._opens.fds, *self._claim_writes.fds)

    def listen_for(self, slots: Sequence[FillerSlot]) -> None:
        """Hear whoever comes to the GPUs of these places. Who was heard of before is not forgotten."""
        if slots and not self._listens_for_claims:
            self._claim_writes.listen_for_writes(CLAIMS, self._world.folder.path)
            self._listens_for_claims = True
        self._listen_to({str(gpu.uuid): gpu for slot in slots for gpu in slot.gpus})
        wanted: dict[Attention, dict[str, str]] = {}
        for slot in slots:
            heard = {uuid: self._nodes[uuid] for uuid in slot.uuids if uuid in self._nodes}
            wanted.setdefault(attention(slot), {}).update(heard)
        before, self._newcomers = self._newcomers, {}
        for kind, nodes in wanted.items():
            known = before.get(kind)
            if known is None or known[0] != nodes:
                eager, ignored = kind
                known = (nodes, Newcomers(self._world.proc, nodes, self._is_ours, ignored, eager=eager))
                known[1].remember()
            self._newcomers[kind] = known

    def hear(self, now_s: float, occupied: set[str]) -> FileEvent:
        """What has happened since the last time. Only who comes to an occupied GPU is looked for at once."""
        heard = self._opens.heard()
        self._visited |= heard.came
        if heard.came & occupied:
            for _, newcomers in self._newcomers.values():
                newcomers.heard(now_s)
        # Anybody can write to the claims, and a thousand times a second: once in a while is often enough to look.
        if now_s >= self._claims_due_s and self._claim_writes.heard().came:
            self._claims_due_s = now_s + _CLAIMS_EVERY_S
            return FileEvent(heard.came | {CLAIMS}, heard.left)
        return heard

    def rest_from_claims(self, until_s: float) -> None:
        """Looking took long: do not look for claims again before then."""
        self._claims_due_s = max(self._claims_due_s, until_s)

    def opened(self, now_s: float) -> Opened:
        """Who is about to work on which GPU, for each kind of attention that finds anybody."""
        found = {kind: newcomers.look(now_s) for kind, (_, newcomers) in self._newcomers.items()}
        return {kind: who for kind, who in found.items() if who}

    def rest_unless(self, occupied: set[str]) -> None:
        """Once none of the GPUs that somebody came to is occupied, every further look would only be in their way."""
        if not self._visited & occupied:
            self._visited.clear()
            for _, newcomers in self._newcomers.values():
                newcomers.rest()

    def next_look_s(self, now_s: float) -> float | None:
        """When to look again; None if there is no reason to."""
        due = [newcomers.next_look_s(now_s) for _, newcomers in self._newcomers.values()]
        due.append(self._claims_due_s if now_s < self._claims_due_s else None)
        return min((each for each in due if each is not None), default=None)

    def close(self) -> None:
        """Stop listening."""
        self._opens.close()
        self._claim_writes.close()

    def _listen_to(self, gpus: dict[str, Gpu]) -> None:
        news: dict[str, list[str]] = {}
        for uuid, gpu in gpus.items():
            if uuid in self._nodes or uuid in self._why_deaf:
                continue
            path = f"{self._world.device_folder}/nvidia{gpu.minor}"
            why = self._why_not(gpu) or self._opens.listen_for_visits(uuid, path)
            if why is None:
                self._nodes[uuid] = path
            else:
                self._why_deaf[uuid] = why
                news.setdefault(why, []).append(gpu.label)
        self.deaf = frozenset(self._why_deaf)
        for why, labels in news.items():
            self._tell(f"opens of GPU {','.join(labels)} cannot be heard ({why}); so fallow looks often instead")

    def _why_not(self, gpu: Gpu) -> str | None:
        if self._world.simulated:
            return "simulated ones have no device node"
        if gpu.mig is not None:
            return "an open does not tell one MIG instance from another"
        return f"its device node is {gpu.minor}" if isinstance(gpu.minor, Unknown) else None


def attention(slot: FillerSlot) -> Attention:
    """What this place minds of an open."""
    return slot.spec.eager, frozenset(slot.spec.ignore)
