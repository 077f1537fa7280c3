"""Fillers at work: hear, look, decide for each place, act.

An open of a device node or a write to a claim wakes the loop at once; else it looks once a second. Where opens cannot
be heard, it looks as often as a small share of a core allows, for as long as there is a filler on a card.
"""

import select
from collections.abc import Callable, Sequence

from fallow.core.gpu import Gpu, Snapshot
from fallow.core.holds import Hold, Touched, hold_on
from fallow.core.job import find_gpu
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.courtesy import Courtesy
from fallow.engine.field import Field
from fallow.engine.newcomers import Newcomers
from fallow.engine.touching import uuids_with_cards
from fallow.engine.world import World
from fallow.policies.fill import Phase
from fallow.policies.signs import Scene, sign
from fallow.readers.ears import Ears
from fallow.readers.terminals import Terminals

TICK_S = 1.0
_OFTEN_S = 0.02
_RESTLESS_S, _RESTLESS_TICK_S = 1.5, 0.25
_GLANCE_S = 0.01  # between two questions to the driver while a newcomer is looked for
_SHARE_OF_A_CORE = 0.1  # the most that looking often may take
_CLAIMS = "claims"


class Filling:
    """All places that are to be filled, from the start to the end."""

    def __init__(
        self, world: World, fields: Sequence[Field], tell: Callable[[str], None], terminals: Terminals | None = None
    ) -> None:
        self._world = world
        self._fields = fields
        self._tell = tell
        self._courtesies = [Courtesy(world, field.spec.manners, terminals) for field in fields]
        self._manners: list[str | Unknown | None] = [None] * len(fields)
        self._holds: list[Hold] = []
        self._ears = Ears()
        nodes, self._deaf = self._listen()
        ignored = {name for field in fields for name in field.spec.ignore}
        eager = any(field.spec.eager for field in fields)
        self._newcomers = Newcomers(world.proc, nodes, self._is_ours, ignored, eager=eager)
        self._newcomers.remember()
        self._own_pids = world.proc.in_pid_namespace_of_its_own()
        self._next_tick_s = world.clock.monotonic_s()
        self._next_often_s = 0.0
        self._restless_until_s = 0.0
        self._next_glance_s = 0.0
        self._opened: set[str] = set()
        self._tell_once()

    def run(self) -> None:
        """Until somebody interrupts it; then all fillers leave."""
        try:
            while True:
                self.turn()
                self.wait()
        finally:
            self.end()
            self.close()

    def wait(self) -> None:
        """Until something is heard, or it is time to look."""
        fds = [*self._ears.fds, *(field.filler.fd for field in self._fields if field.filler and field.filler.fd)]
        now_s = self._world.clock.monotonic_s()
        select.select(fds, [], [], max(0.0, self._due_s(now_s) - now_s))

    def turn(self) -> None:
        """Hear, look, decide, act."""
        clock = self._world.clock
        now_s = clock.monotonic_s()
        heard = self._ears.heard()
        self._opened |= heard.came - {_CLAIMS}
        if heard.came & self._occupied():
            self._newcomers.heard(now_s)
        if heard.left - self._occupied():  # the driver shows traces of whoever has just left for a moment longer
            self._restless_until_s = now_s + _RESTLESS_S
            self._next_tick_s = min(self._next_tick_s, now_s + _RESTLESS_TICK_S)
        reported = {field.listen() for field in self._fields}
        tick = now_s >= self._next_tick_s
        if tick:
            pace_s = _RESTLESS_TICK_S if now_s < self._restless_until_s else TICK_S
            self._next_tick_s = max(self._next_tick_s + pace_s, now_s)
            self._ask_around()
        opened = self._newcomers.look(now_s)
        due = tick or True in reported or now_s >= self._next_glance_s or self._is_overdue(now_s)
        if not (due or opened or _CLAIMS in heard.came):
            return  # the files told nothing new, and the driver was asked a moment ago
        self._next_glance_s = now_s + _GLANCE_S
        snapshot = self._world.eyes.look(self._depth() if tick else Depth.GLANCE)
        looked_s = clock.monotonic_s() - now_s
        self._next_often_s = now_s + max(_OFTEN_S, looked_s / _SHARE_OF_A_CORE)
        for field, manners in zip(self._fields, self._manners, strict=True):
            field.turn(snapshot.at_s, self._against(field, snapshot, opened, manners))
        if not self._opened & self._occupied():
            self._opened.clear()
            self._newcomers.rest()

    def end(self) -> None:
        """Ask all fillers to leave, at the same time; insist where they do not."""
        for field in self._fields:
            field.ask_to_end()
        for field in self._fields:
            field.end(field.spec.rules.grace_s)

    def close(self) -> None:
        """Let go of everything."""
        self._ears.close()
        for field in self._fields:
            field.close()

    def _due_s(self, now_s: float) -> float:
        due = [self._next_tick_s]
        closely = self._newcomers.next_look_s(now_s)
        if closely is not None:
            due.append(closely)
        due.extend(field.deadline_s for field in self._fields if field.deadline_s is not None)
        if any(field.filled and not self._deaf.isdisjoint(field.uuids) for field in self._fields):
            due.append(self._next_often_s)
        return min(due)

    def _is_overdue(self, now_s: float) -> bool:
        return any(field.deadline_s is not None and now_s >= field.deadline_s for field in self._fields)

    def _occupied(self) -> set[str]:
        """The GPUs that are filled, and not about to be given back."""
        return {uuid for field in self._fields if field.state.phase is Phase.FILLED for uuid in field.uuids}

    def _depth(self) -> Depth:
        """How closely to look at a tick: what ran since the last matters only where nobody should have been."""
        if all(field.filled for field in self._fields):
            return Depth.GLANCE
        minds_warmth = any(field.spec.max_temp_c is not None for field in self._fields)
        return Depth.LOOK if minds_warmth else Depth.WATCH

    def _ask_around(self) -> None:
        """What changes slowly: people, hours, holds."""
        wall_s = self._world.clock.wall_s()
        self._world.folder.refresh()
        self._holds = self._world.holds.active(wall_s)
        self._manners = [courtesy.against() for courtesy in self._courtesies]

    def _against(
        self, field: Field, snapshot: Snapshot, opened: dict[str, str], manners: str | Unknown | None
    ) -> str | Unknown | None:
        """The first sign on any of the GPUs; a sign outweighs what is not known."""
        found = [self._sign(field, find_gpu(snapshot, uuid), uuid, opened.get(uuid)) for uuid in field.uuids]
        found.append(manners)
        signs = [each for each in found if isinstance(each, str)]
        return signs[0] if signs else next((each for each in found if each is not None), None)

    def _sign(self, field: Field, gpu: Gpu | Unknown, uuid: str, opened_by: str | None) -> str | Unknown | None:
        if isinstance(gpu, Unknown):
            return gpu
        gpu, nobody = self._told_apart(field, gpu)
        hold = hold_on(Touched(uuids_with_cards([gpu])), self._holds, self._world.clock.wall_s())
        return sign(
            Scene(
                gpu,
                nobody,
                opened_by,
                field.promised(uuid),
                None if hold is None else str(hold),
                field.filled,
                field.spec.max_temp_c,
            )
        )

    def _told_apart(self, field: Field, gpu: Gpu) -> tuple[Gpu, frozenset[int]]:
        """Which holders are nobody: ours, those to be ignored; the first of the others with its name."""
        if isinstance(gpu.holders, Unknown) or not gpu.holders:
            return gpu, frozenset()
        nobody = frozenset(holder.pid for holder in gpu.holders if self._is_nobody(field, holder.pid))
        described = tuple(
            holder if holder.pid in nobody else self._world.proc.describe(holder) for holder in gpu.holders
        )
        return replace(gpu, holders=described), nobody

    def _is_nobody(self, field: Field, pid: int) -> bool:
        if self._own_pids and field.filled and self._world.proc.stat(pid) is None:
            return True  # a number of another namespace: it cannot be told from the filler's own
        ignored = field.spec.ignore
        return self._is_ours(pid) or (bool(ignored) and not self._world.proc.called(pid).isdisjoint(ignored))

    def _is_ours(self, pid: int) -> bool:
        keepers = {field.filler.keeper for field in self._fields if field.filler is not None}
        return bool(keepers) and (
            pid in keepers or any(above in keepers for above in self._world.proc.ancestors(pid))
        )

    def _listen(self) -> tuple[dict[str, str], frozenset[str]]:
        """The device nodes that can be heard, by UUID, and the GPUs whose cannot."""
        nodes: dict[str, str] = {}
        deaf: dict[str, list[str]] = {}
        for gpu in (gpu for field in self._fields for gpu in field.gpus):
            path = f"{self._world.device_folder}/nvidia{gpu.minor}"
            if self._world.simulated:
                why: str | None = "simulated ones have no device node"
            elif gpu.mig is not None:
                why = "an open does not tell one MIG instance from another"
            elif isinstance(gpu.minor, Unknown):
                why = f"its device node is {gpu.minor}"
            else:
                why = self._ears.listen_for_visits(str(gpu.uuid), path)
            if why is None:
                nodes[str(gpu.uuid)] = path
            else:
                deaf.setdefault(why, []).append(gpu.label)
        for why, labels in deaf.items():
            self._tell(f"opens of GPU {','.join(labels)} cannot be heard ({why}); so fallow looks often instead")
        self._ears.listen_for_writes(_CLAIMS, self._world.folder.path)
        return nodes, frozenset(str(gpu.uuid) for field in self._fields for gpu in field.gpus) - nodes.keys()

    def _tell_once(self) -> None:
        no_record = next((why for why in (each.no_record() for each in self._courtesies) if why is not None), None)
        if no_record is not None:
            self._tell(f"who is logged in cannot be seen ({no_record}), so nobody counts as at a terminal")
        if self._own_pids:
            self._tell("inside a container only newcomers in the same one are sure to be seen; on the host, all are")
