"""The fill loop: it reads events, looks at the GPUs, decides for each slot, and acts.

An open of a device node or a write to a claim wakes the loop at once; otherwise it looks once a second, and in
the daemon at its ticks. GPUs whose device nodes cannot be watched are polled while they have a filler, as often as a
small share of a core allows.

Several slots may share a GPU. They are in order: the first whose own rules allow it gets the GPU, and later ones
yield it in the ordinary way. Fillers ignore each other's activity. No GPU ever has two fillers.
"""

import select
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from fallow.actuators.process.signals import demand_own_pids
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, Holder, Snapshot
from fallow.core.ports import Depth
from fallow.core.protections import Affected, Protection
from fallow.core.reasons import Reason
from fallow.core.reservations import Reservations
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import replace
from fallow.engine.fill.device_events import CLAIMS, DeviceEvents, Opened, attention
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.history.run import Run
from fallow.engine.jobs.protections import labels_with_cards, uuids_with_cards
from fallow.engine.machine.presence import PresenceCheck, PresenceRules
from fallow.engine.machine.walls import Walls
from fallow.policies.arbiter import leave_alone
from fallow.policies.fill import Phase
from fallow.policies.signs import Scene, sign
from fallow.readers.terminals import Terminals

TICK_S = 1.0
_POLL_S = 0.02
_UNSETTLED_S, _UNSETTLED_TICK_S = 1.5, 0.25
_GLANCE_S = 0.01  # between two driver queries during the search for a newcomer
_SHARE_OF_A_CORE = 0.1  # the most that polling may take


class FillLoop:
    """Runs all filler slots, from the start until every filler has left."""

    def __init__(
        self,
        run: Run,
        slots: Sequence[FillerSlot],
        terminals: Terminals | None = None,
        *,
        alert: Callable[[], None] = lambda: None,
    ) -> None:
        """`alert` is called as soon as a GPU with a filler on it is opened."""
        world = run.world
        demand_own_pids(world.proc)
        self.protections: list[Protection] = []
        """The protections that applied at the last tick."""
        self.reservations: dict[str, Reservations] = {}
        """The reservations by UUID, as last read in this tick."""
        self._world = world
        self._say = run.say
        self._walls = Walls(run.say)
        self._alert = alert
        self._terminals = terminals if terminals is not None else world.terminals()
        self._slots: list[FillerSlot] = []
        self._leaving: list[FillerSlot] = []
        self._presence_checks: dict[PresenceRules, PresenceCheck] = {}
        self._presence: dict[PresenceRules, Reason | Unknown | None] = {}
        self._events = DeviceEvents(world, self._is_of_filler, run.say)
        self._own_pids = world.proc.in_pid_namespace_of_its_own()
        self._next_poll_s = 0.0
        self._unsettled_until_s = 0.0
        self._next_glance_s = 0.0
        self._decided_s = 0.0
        self._lineages: dict[int, tuple[int, ...]] = {}
        self._said: set[str] = set()
        self._sharing: dict[FillerSlot, list[FillerSlot]] = {}
        self._poller, self._polled = select.poll(), frozenset[int]()
        self.change(slots)

    @property
    def slots(self) -> Sequence[FillerSlot]:
        """Return the slots, those with precedence first."""
        return self._slots

    def change(self, slots: Sequence[FillerSlot]) -> None:
        """Run these slots from now on. The fillers of slots that are not among them yield in the ordinary way."""
        gone = [slot for slot in self._slots if slot not in slots]
        for slot in gone:
            slot.retire(Reason("config_changed"))
        self._leaving += gone
        self._slots = list(slots)
        self._find_sharing()
        self._presence_checks = {
            presence: self._presence_checks.get(presence) or PresenceCheck(self._world, presence, self._terminals)
            for presence in (slot.spec.presence_rules for slot in slots)
        }
        self._events.watch(slots)
        self._say_limits()

    def run(self) -> None:
        """Run until a person interrupts it; then end all fillers."""
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
        """Wait for a file event, a report of a keeper, one of the other descriptors, or the time of the next look."""
        fillers = (slot.filler for slot in self._all_slots())
        now_s = self._world.clock.monotonic_s()
        events = self._events.fds if self._slots or self._leaving else ()  # without slots none is read
        fds = frozenset((*events, *others, *(fd for filler in fillers if filler and (fd := filler.fd))))
        if fds != self._polled:
            self._poller = select.poll()  # select(2) takes no descriptor beyond 1023, and a daemon may have thousands
            for fd in fds:
                self._poller.register(fd, select.POLLIN)
            self._polled = fds
        self._poller.poll(max(0.0, min(until_s, self._due_s(now_s)) - now_s) * 1000)

    def tick(self, snapshot: Snapshot) -> None:
        """Do what is due once a tick, with a snapshot that the caller may use for more than this."""
        self.reservations = {}
        self._read_presence()
        now_s = self._world.clock.monotonic_s()
        self._read_events(now_s)
        self._decide(snapshot, self._events.opened(now_s))

    def turn(self) -> None:
        """Read events, look if they or the time call for it, decide and act. Without slots, do nothing."""
        if not self._slots and not self._leaving:
            return
        now_s = self._world.clock.monotonic_s()
        urgent = self._read_events(now_s)
        opened = self._events.opened(now_s)
        if self._yield_opened(now_s, opened):
            return
        if not (urgent or opened or self._is_due(now_s)):
            return  # a driver query would only delay a newcomer
        snapshot = self._world.gpu_reader.look(Depth.HOLDERS)
        looked_s = self._world.clock.monotonic_s() - now_s
        self._next_poll_s = now_s + max(_POLL_S, looked_s / _SHARE_OF_A_CORE)
        self._decide(snapshot, opened)

    def end(self) -> None:
        """Ask all fillers to leave at the same time, and kill those that do not."""
        for slot in self._all_slots():
            slot.ask_to_end()
        asked_s = self._world.clock.monotonic_s()
        self._report()
        for slot in self._all_slots():
            slot.end(asked_s + slot.spec.rules.grace_s)

    def kill(self) -> None:
        """Kill all fillers that are on a GPU."""
        for slot in self._all_slots():
            slot.kill()

    def close(self) -> None:
        """Close the watches and the claim files."""
        self._events.close()
        for slot in self._all_slots():
            slot.close()

    def _read_events(self, now_s: float) -> bool:
        """Read file events and the reports of keepers; return whether they are a reason to look at once."""
        self._lineages.clear()
        occupied = self._occupied()
        events = self._events.read(now_s, occupied)
        if events.came & occupied:
            self._alert()
        if events.left - occupied:  # the driver shows the activity of a process for a moment after it has left
            self._unsettled_until_s = now_s + _UNSETTLED_S
        reported = {slot.listen() for slot in self._all_slots()}
        return True in reported or CLAIMS in events.came

    def _decide(self, snapshot: Snapshot, opened: Opened) -> None:
        now_s = self._world.clock.monotonic_s()
        self._next_glance_s, self._decided_s = now_s + _GLANCE_S, now_s
        gpus = {gpu.uuid: gpu for gpu in snapshot.gpus if isinstance(gpu.uuid, str)}
        for slot in self._slots:
            sharing = self._sharing[slot]
            index = sharing.index(slot)
            opens = opened.get(attention(slot), {}) if opened else {}
            with self._around(slot):
                against = self._against(slot, gpus, opens, sharing[:index])
                # A filler that yields to this slot, of a later or a retired one, may still be on its GPUs.
                slot.turn(snapshot.at_s, against, room=not any(each.marked for each in sharing[index + 1 :]))
        for slot in self._leaving:
            with self._around(slot):
                slot.turn(snapshot.at_s, slot.retired)
        self._report()
        self._close_retired()
        self._events.stop_search_unless(self._occupied())

    def _yield_opened(self, now_s: float, opened: Opened) -> bool:
        """Let fillers leave whose GPU was opened as only CUDA does; return whether there were any.

        The driver is not queried first: it is busy with the newcomer at that moment, and would answer later.
        """
        leaving = False
        for slot in self._slots:
            opens = opened.get(attention(slot), {})
            opened_by = next((opens[uuid] for uuid in slot.uuids if uuid in opens), None)
            if slot.state.phase is Phase.FILLED and opened_by is not None:
                with self._around(slot):
                    slot.turn(now_s, opened_by)
                leaving = True
        if leaving:
            self._report()
            self._events.stop_search_unless(self._occupied())
        return leaving

    def _report(self) -> None:
        """Report what all slots have done."""
        for slot in self._all_slots():
            with self._walls.around(f"the report on {slot.name}"):
                slot.report()

    def _around(self, slot: FillerSlot) -> AbstractContextManager[None]:
        """Return the wall around a slot: its filler ends where it can no longer be told to leave."""
        return self._walls.around(f"{slot.spec.name} on {slot.name}", slot.kill)

    def _close_retired(self) -> None:
        for slot in [slot for slot in self._leaving if slot.filler is None]:
            slot.close()
            self._leaving.remove(slot)
            self._find_sharing()

    def _find_sharing(self) -> None:
        """Note for each slot all slots that have a GPU in common with it, itself among them, in their order."""
        slots = list(self._all_slots())
        self._sharing = {slot: [other for other in slots if _share(slot, other)] for slot in slots}

    def _all_slots(self) -> Iterator[FillerSlot]:
        yield from self._slots
        yield from self._leaving

    def _due_s(self, now_s: float) -> float:
        due = [now_s + TICK_S * 3600]
        next_look_s = self._events.next_look_s(now_s)
        if next_look_s is not None:
            due.append(next_look_s)
        due.extend(due_s for slot in self._all_slots() if (due_s := slot.deadline_s) is not None)
        if now_s < self._unsettled_until_s:
            due.append(self._decided_s + _UNSETTLED_TICK_S)
        unwatched = self._events.unwatched
        if unwatched and any(slot.filled and not unwatched.isdisjoint(slot.uuids) for slot in self._all_slots()):
            due.append(self._next_poll_s)
        return min(due)

    def _is_due(self, now_s: float) -> bool:
        """Return whether it is time to query the driver, to find a newcomer or because a decision is due."""
        if self._events.next_look_s(now_s) is not None and now_s >= self._next_glance_s:
            return True
        return now_s >= self._due_s(now_s)

    def _occupied(self) -> set[str]:
        """Return the GPUs that are filled and not about to be given back."""
        return {uuid for slot in self._slots if slot.state.phase is Phase.FILLED for uuid in slot.uuids}

    def _depth(self) -> Depth:
        """Return how much to read at a tick: what ran since the last one matters only for slots without a filler."""
        if all(slot.filled for slot in self._slots):
            return Depth.HOLDERS
        return Depth.ALL

    def _read_presence(self) -> None:
        """Read what changes slowly: people at terminals, hours, protections."""
        self.protections = self._world.protections.active(self._world.clock.wall_s(), self._say)
        self._presence = {presence: check.against() for presence, check in self._presence_checks.items()}

    def _against(
        self, slot: FillerSlot, gpus: Mapping[str, Gpu], opened: Mapping[str, Reason], ahead: Sequence[FillerSlot]
    ) -> Reason | Unknown | None:
        """Return the first reason against a filler on these GPUs; a reason goes before an Unknown."""
        found = [self._sign(slot, gpus.get(uuid), uuid, opened.get(uuid)) for uuid in slot.uuids]
        found.append(self._presence.get(slot.spec.presence_rules, Unknown("people at terminals were not read yet")))
        first = next((each for each in ahead if each.marked or each.wants), None)
        if first is not None:
            found.append(Reason("comes_first", filler=first.spec.name, gpus=first.name))
        signs = [each for each in found if isinstance(each, Reason)]
        return signs[0] if signs else next((each for each in found if each is not None), None)

    def _sign(
        self, slot: FillerSlot, gpu: Gpu | None, uuid: str, opened_by: Reason | None
    ) -> Reason | Unknown | None:
        if gpu is None:
            return Unknown(f"GPU {uuid} is not to be seen")
        try:
            reservations = slot.reservations(uuid)
        except FallowError as error:
            return Unknown(str(error))
        self.reservations[uuid] = reservations
        # The driver shows what a filler did for seconds after it has left to make room for this one.
        ours = slot.filled or slot.wants or self._has_other_filler(slot, uuid)
        if ours and reservations.filler is not None:
            reservations = replace(reservations, filler=None)
        gpu, ignored = self._split_holders(slot, gpu, ours=ours)
        protection = None
        if self.protections:
            touched = Affected(uuids_with_cards([gpu]), labels=labels_with_cards([gpu]))
            protection = leave_alone(touched, self._world.clock.wall_s(), self.protections)
        return sign(Scene(gpu, ignored, opened_by, reservations, protection, ours))

    def _has_other_filler(self, slot: FillerSlot, uuid: str) -> bool:
        """Return whether the filler of another slot is on the GPU."""
        return any(other.marked for other in self._sharing[slot] if other is not slot and uuid in other.uuids)

    def _split_holders(self, slot: FillerSlot, gpu: Gpu, *, ours: bool) -> tuple[Gpu, frozenset[int]]:
        """Return the GPU with its holders described, and the holders that the slot ignores."""
        if isinstance(gpu.holders, Unknown) or not gpu.holders:
            return gpu, frozenset()
        ignored = frozenset(holder.pid for holder in gpu.holders if self._is_ignored(slot, holder, ours=ours))
        if all(holder.pid in ignored or holder.user is not NOT_ASKED for holder in gpu.holders):
            return gpu, ignored
        described = tuple(
            holder if holder.pid in ignored or holder.user is not NOT_ASKED else self._world.proc.describe(holder)
            for holder in gpu.holders
        )
        return replace(gpu, holders=described), ignored

    def _is_ignored(self, slot: FillerSlot, holder: Holder, *, ours: bool) -> bool:
        if not self._lineage(holder.pid):
            # It has ended since the look, as the children of a sweep do all the time. Or the pid is of another
            # namespace, and cannot be distinguished from the filler's.
            return ours or not self._own_pids
        ignored = slot.spec.ignore
        if self._is_of_filler(holder.pid):
            return True
        return bool(ignored) and not self._world.proc.trusted_names(holder.pid).isdisjoint(ignored)

    def _is_of_filler(self, pid: int) -> bool:
        """Return whether a process belongs to a filler of ours: whether one of our keepers is above it."""
        return not self._keeper_pids().isdisjoint(self._lineage(pid))

    def _lineage(self, pid: int) -> tuple[int, ...]:
        """Return the process and those above it; nothing if it has ended. Read once a turn: many slots need it."""
        line = self._lineages.get(pid)
        if line is None:
            line = self._lineages[pid] = self._world.proc.lineage(pid)
        return line

    def _keeper_pids(self) -> set[int | None]:
        return {slot.filler.keeper for slot in self._all_slots() if slot.filler is not None}

    def _say_limits(self) -> None:
        checks = self._presence_checks.values()
        blind = next((why for why in (each.cannot_see() for each in checks) if why is not None), None)
        if blind is not None:
            self._say_once(
                f"{blind.why}; so nothing is filled, unless people at terminals are ignored (--users ignore)"
            )
        if self._own_pids and self._slots:
            self._say_once(
                "inside a container only newcomers in the same one are sure to be seen; on the host, all are"
            )

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


def _share(one: FillerSlot, other: FillerSlot) -> bool:
    return not set(one.uuids).isdisjoint(other.uuids)
