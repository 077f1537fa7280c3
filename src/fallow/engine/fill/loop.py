"""Fillers at work: hear, look, decide for each place, act.

An open of a device node or a write to a claim wakes the loop at once; else it looks once a second. Where opens cannot
be heard, it looks as often as a small share of a core allows, for as long as there is a filler on a card.

Several fillers may want the same card. The places are in order: the first whose own rules allow it gets the card, and
those behind it make way for it through an ordinary yield. To each other they are nobody; no card ever has two.
"""

import os
import select
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fallow.actuators.process import spawn
from fallow.actuators.process.signals import demand_own_pids
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import find_gpu
from fallow.core.ports import Depth
from fallow.core.protections import Affected, Protection, protection_on
from fallow.core.reservations import Reservations
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import replace
from fallow.engine.fill.device_events import (
    CLAIMS,
    DeviceEvents,
    Opened,
    attention,
)
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.history.run import Run
from fallow.engine.jobs.protection_scope import uuids_with_cards
from fallow.engine.machine.presence import PresenceCheck, PresenceRules
from fallow.policies.fill import Phase
from fallow.policies.signs import Scene, sign
from fallow.readers.terminals import Terminals

TICK_S = 1.0
_OFTEN_S = 0.02
_RESTLESS_S, _RESTLESS_TICK_S = 1.5, 0.25
_GLANCE_S = 0.01  # between two questions to the driver while a newcomer is looked for
_SHARE_OF_A_CORE = 0.1  # the most that looking often may take
_ECHO_S = 3.0  # for so long the driver may still show what a filler of ours did that has left


class FillLoop:
    """All places that are to be filled, from the start to the end."""

    def __init__(
        self,
        run: Run,
        slots: Sequence[FillerSlot],
        terminals: Terminals | None = None,
        *,
        alert: Callable[[], None] = lambda: None,
    ) -> None:
        """`alert` is called the moment that somebody opens a card with a filler on it."""
        world = run.world
        demand_own_pids(world.proc)
        self.protections: list[Protection] = []
        """What people have asked to be left alone, as of the last tick."""
        self.promised: dict[str, Reservations] = {}
        """What was promised of each GPU that is to be filled when it was last looked at since the tick began."""
        self._world = world
        self._say = run.say
        self._alert = alert
        self._terminals = terminals if terminals is not None else world.terminals()
        self._slots: list[FillerSlot] = []
        self._leaving: list[FillerSlot] = []
        self._presence_checks: dict[PresenceRules, PresenceCheck] = {}
        self._presence: dict[PresenceRules, str | Unknown | None] = {}
        self._events = DeviceEvents(world, self._is_ours, run.say)
        self._own_pids = world.proc.in_pid_namespace_of_its_own()
        self._next_often_s = 0.0
        self._restless_until_s = 0.0
        self._next_glance_s = 0.0
        self._decided_s = 0.0
        self._lines: dict[int, tuple[int, ...]] = {}
        self._keepers: dict[int, int | None] = {}
        self._told: set[str] = set()
        self.change(slots)

    @property
    def slots(self) -> Sequence[FillerSlot]:
        """The places, those that come first at the front."""
        return self._slots

    def change(self, slots: Sequence[FillerSlot]) -> None:
        """Fill these from now on. Places that are not among them any more are given up in the ordinary way."""
        gone = [slot for slot in self._slots if slot not in slots]
        for slot in gone:
            slot.retire("the config has changed")
        self._leaving += gone
        self._slots = list(slots)
        self._presence_checks = {
            presence: self._presence_checks.get(presence) or PresenceCheck(self._world, presence, self._terminals)
            for presence in (slot.spec.presence_rules for slot in slots)
        }
        self._events.listen_for(slots)
        self._tell_once()

    def run(self) -> None:
        """Until somebody interrupts it; then all fillers leave."""
        clock = self._world.clock
        next_tick_s = clock.monotonic_s()
        try:
            while True:
                now_s = clock.monotonic_s()
                if now_s >= next_tick_s:
                    next_tick_s = max(next_tick_s + TICK_S, now_s)
                    self.tick(self._world.gpu_reader.look(self._depth()))
                else:
                    self.turn()
                self.wait(next_tick_s)
        finally:
            self.end()
            self.close()

    def wait(self, until_s: float, others: Iterable[int] = ()) -> None:
        """Until something is heard, one of the others becomes readable, or it is time to look."""
        listening = select.poll()  # select(2) knows no descriptor beyond 1023, and a daemon may have thousands
        fillers = (slot.filler for slot in self._everybody())
        now_s = self._world.clock.monotonic_s()
        heard = self._events.fds(now_s) if self._slots or self._leaving else ()  # else nobody would listen
        for fd in (*heard, *others, *(filler.fd for filler in fillers if filler and filler.fd)):
            listening.register(fd, select.POLLIN)
        listening.poll(max(0.0, min(until_s, self._due_s(now_s)) - now_s) * 1000)

    def tick(self, snapshot: Snapshot) -> None:
        """What is due once a tick, with a snapshot that others may use too."""
        self.promised = {}
        self._ask_around()
        now_s = self._world.clock.monotonic_s()
        self._hear(now_s)
        self._decide(snapshot, self._events.opened(now_s))

    def turn(self) -> None:
        """Hear, glance, decide, act. Where there is nothing to fill, there is nothing to look at."""
        if not self._slots and not self._leaving:
            return
        now_s = self._world.clock.monotonic_s()
        urgent = self._hear(now_s)
        opened = self._events.opened(now_s)
        if self._make_way(now_s, opened):
            return
        if not (urgent or opened or self._is_due(now_s)):
            return  # every question to the driver would only be in a newcomer's way
        snapshot = self._world.gpu_reader.look(Depth.GLANCE)
        looked_s = self._world.clock.monotonic_s() - now_s
        self._next_often_s = now_s + max(_OFTEN_S, looked_s / _SHARE_OF_A_CORE)
        self._events.rest_from_claims(now_s + looked_s / _SHARE_OF_A_CORE)
        self._decide(snapshot, opened)

    def end(self) -> None:
        """Ask all fillers to leave, at the same time; insist where they do not."""
        for slot in self._everybody():
            slot.ask_to_end()
        asked_s = self._world.clock.monotonic_s()
        for slot in self._everybody():
            slot.end(asked_s + slot.spec.rules.grace_s)

    def close(self) -> None:
        """Let go of everything."""
        self._events.close()
        for slot in self._everybody():
            slot.close()

    def _hear(self, now_s: float) -> bool:
        """Take in what files and keepers tell; whether that is a reason to look at once."""
        self._lines.clear()
        self._keepers.clear()
        occupied = self._occupied()
        heard = self._events.hear(now_s, occupied)
        if heard.came & occupied:
            self._alert()
        if heard.left - occupied:  # the driver shows traces of whoever has just left for a moment longer
            self._restless_until_s = now_s + _RESTLESS_S
        reported = {slot.listen() for slot in self._everybody()}
        return True in reported or CLAIMS in heard.came

    def _decide(self, snapshot: Snapshot, opened: Opened) -> None:
        now_s = self._world.clock.monotonic_s()
        self._next_glance_s, self._decided_s = now_s + _GLANCE_S, now_s
        for place, slot in enumerate(self._slots):
            against = self._against(slot, snapshot, opened.get(attention(slot), {}), self._slots[:place])
            slot.turn(snapshot.at_s, against, room=not self._is_taken_behind(slot, place))
        for slot in self._leaving:
            slot.turn(snapshot.at_s, slot.retired)
        self._let_go()
        self._events.rest_unless(self._occupied())

    def _make_way(self, now_s: float, opened: Opened) -> bool:
        """Have fillers leave whose card somebody has opened as only work does; whether there were any.

        The driver is not asked first: it is busy with the newcomer just then, and would answer later.
        """
        leaving = False
        for slot in self._slots:
            who = opened.get(attention(slot), {})
            opened_by = next((who[uuid] for uuid in slot.uuids if uuid in who), None)
            if slot.state.phase is Phase.FILLED and opened_by is not None:
                slot.turn(now_s, opened_by)
                leaving = True
        if leaving:
            self._events.rest_unless(self._occupied())
        return leaving

    def _let_go(self) -> None:
        for slot in [slot for slot in self._leaving if slot.filler is None]:
            slot.close()
            self._leaving.remove(slot)

    def _everybody(self) -> Iterator[FillerSlot]:
        yield from self._slots
        yield from self._leaving

    def _is_taken_behind(self, slot: FillerSlot, place: int) -> bool:
        """Whether one who makes way for this place is still there: a later one, or whoever leaves for ever."""
        return any(each.marked and _share(each, slot) for each in (*self._slots[place + 1 :], *self._leaving))

    def _due_s(self, now_s: float) -> float:
        due = [now_s + TICK_S * 3600]
        closely = self._events.next_look_s(now_s)
        if closely is not None:
            due.append(closely)
        due.extend(slot.deadline_s for slot in self._everybody() if slot.deadline_s is not None)
        if now_s < self._restless_until_s:
            due.append(self._decided_s + _RESTLESS_TICK_S)
        if any(slot.filled and not self._events.deaf.isdisjoint(slot.uuids) for slot in self._everybody()):
            due.append(self._next_often_s)
        return min(due)

    def _is_due(self, now_s: float) -> bool:
        """Whether it is time to ask the driver: a newcomer is looked for, or something is to be decided."""
        if self._events.next_look_s(now_s) is not None and now_s >= self._next_glance_s:
            return True
        return now_s >= self._due_s(now_s)

    def _occupied(self) -> set[str]:
        """The GPUs that are filled, and not about to be given back."""
        return {uuid for slot in self._slots if slot.state.phase is Phase.FILLED for uuid in slot.uuids}

    def _depth(self) -> Depth:
        """How closely to look at a tick: what ran since the last matters only where nobody should have been."""
        if all(slot.filled for slot in self._slots):
            return Depth.GLANCE
        minds_warmth = any(slot.spec.max_temp_c is not None for slot in self._slots)
        return Depth.LOOK if minds_warmth else Depth.WATCH

    def _ask_around(self) -> None:
        """What changes slowly: people, hours, protections."""
        self.protections = self._world.protections.active(self._world.clock.wall_s(), self._say)
        self._presence = {presence: check.against() for presence, check in self._presence_checks.items()}

    def _against(
        self, slot: FillerSlot, snapshot: Snapshot, opened: Mapping[str, str], ahead: Sequence[FillerSlot]
    ) -> str | Unknown | None:
        """The first sign on any of the GPUs; a sign outweighs what is not known."""
        found = [self._sign(slot, find_gpu(snapshot, uuid), uuid, opened.get(uuid)) for uuid in slot.uuids]
        found += [self._sign(slot, gpu, str(gpu.uuid), None) for gpu in self._strays(slot, snapshot)]
        found.append(self._presence.get(slot.spec.presence_rules, Unknown("nobody has asked yet")))
        first = next((each for each in ahead if (each.marked or each.wants) and _share(each, slot)), None)
        if first is not None:
            found.append(f"{first.spec.name} comes first on {first.name}")
        signs = [each for each in found if isinstance(each, str)]
        return signs[0] if signs else next((each for each in found if each is not None), None)

    def _strays(self, slot: FillerSlot, snapshot: Snapshot) -> list[Gpu]:
        """GPUs that the filler is on, though they were not given to it: whoever wants those has it leave as well."""
        keeper = None if slot.filler is None else slot.filler.keeper
        if keeper is None:
            return []
        found = [
            gpu
            for gpu in snapshot.gpus
            if isinstance(gpu.uuid, str) and gpu.uuid not in slot.uuids and not isinstance(gpu.holders, Unknown)
            if any(self._keeper_of(holder.pid) == keeper for holder in gpu.holders)
        ]
        for gpu in found:
            self._once(f"the filler of {slot.name} is on GPU {gpu.label}; does it set CUDA_VISIBLE_DEVICES itself?")
        return found

    def _sign(self, slot: FillerSlot, gpu: Gpu | Unknown, uuid: str, opened_by: str | None) -> str | Unknown | None:
        if isinstance(gpu, Unknown):
            return gpu
        try:
            promised = slot.promised(uuid)
        except FallowError as error:
            return Unknown(str(error))
        self.promised[uuid] = promised
        ours = slot.filled or self._is_anothers(slot, uuid)
        if ours:
            promised = replace(promised, filler=None)
        gpu, nobody = self._told_apart(slot, gpu, ours=ours)
        protection = self._hold_on(gpu)
        return sign(
            Scene(
                gpu,
                nobody,
                opened_by,
                promised,
                None if protection is None else str(protection),
                ours,
                slot.spec.max_temp_c,
            )
        )

    def _hold_on(self, gpu: Gpu) -> Protection | None:
        if not self.protections:
            return None
        return protection_on(Affected(uuids_with_cards([gpu])), self.protections, self._world.clock.wall_s())

    def _is_anothers(self, slot: FillerSlot, uuid: str) -> bool:
        """Whether another filler of ours is on the GPU, or was until a moment ago."""
        now_s = self._world.clock.monotonic_s()
        return any(
            other.marked or (other.left_s is not None and now_s - other.left_s < _ECHO_S)
            for other in self._everybody()
            if other is not slot and uuid in other.uuids
        )

    def _told_apart(self, slot: FillerSlot, gpu: Gpu, *, ours: bool) -> tuple[Gpu, frozenset[int]]:
        """Which holders are nobody: ours, those to be ignored; the first of the others with its name."""
        if isinstance(gpu.holders, Unknown) or not gpu.holders:
            return gpu, frozenset()
        nobody = frozenset(holder.pid for holder in gpu.holders if self._is_nobody(slot, holder.pid, ours=ours))
        described = tuple(
            holder if holder.pid in nobody or holder.user is not NOT_ASKED else self._world.proc.describe(holder)
            for holder in gpu.holders
        )
        return replace(gpu, holders=described), nobody

    def _is_nobody(self, slot: FillerSlot, pid: int, *, ours: bool) -> bool:
        if not self._line_of(pid):
            # It has ended since the look, as the children of a sweep do all the time. Or it is a number of another
            # namespace, which cannot be told from the filler's own.
            return ours or not self._own_pids
        ignored = slot.spec.ignore
        return self._is_ours(pid) or (bool(ignored) and not self._world.proc.trusted_names(pid).isdisjoint(ignored))

    def _is_ours(self, pid: int) -> bool:
        """Whether it belongs to a filler of ours; one whose keeper was just killed has become our own child."""
        if self._keeper_of(pid) is not None:
            return True
        line = self._line_of(pid)
        return os.getpid() in line[1:] and spawn.helpers.isdisjoint(line)

    def _keeper_of(self, pid: int) -> int | None:
        """Which of our keepers keeps a process, if one does."""
        if pid not in self._keepers:
            keepers = {slot.filler.keeper for slot in self._everybody() if slot.filler is not None}
            line = self._line_of(pid) if keepers else ()
            self._keepers[pid] = next((each for each in line if each in keepers), None)
        return self._keepers[pid]

    def _line_of(self, pid: int) -> tuple[int, ...]:
        """The process and all above it; in one turn one process is asked about for many places."""
        if pid not in self._lines:
            self._lines[pid] = self._world.proc.lineage(pid)
        return self._lines[pid]

    def _tell_once(self) -> None:
        courtesies = self._presence_checks.values()
        blind = next((why for why in (each.cannot_see() for each in courtesies) if why is not None), None)
        if blind is not None:
            self._once(f"{blind.why}; so nothing is filled, unless people at terminals are ignored (--users ignore)")
        if self._own_pids and self._slots:
            self._once("inside a container only newcomers in the same one are sure to be seen; on the host, all are")

    def _once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            self._say(sentence)


def _share(one: FillerSlot, other: FillerSlot) -> bool:
    return not set(one.uuids).isdisjoint(other.uuids)
