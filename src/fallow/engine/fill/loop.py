"""The fill loop: it reads events, looks at the GPUs, decides for each slot, and acts.

An open of a device node or a write to a claim wakes the loop at once; otherwise it looks once a second, and in
the daemon at its ticks. GPUs that were just opened, and those whose device nodes cannot be watched, are polled while
they have a filler, as often as a small share of a core allows.

Several slots may share a GPU. The first that may use it gets it, and later ones yield it in the ordinary way. Fillers
ignore each other's activity. No GPU ever has two fillers.
"""

import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from fallow.actuators.process.signals import demand_own_pids
from fallow.core.errors import FallowError
from fallow.core.gpu import Gpu, Holder, Snapshot
from fallow.core.ports import Depth
from fallow.core.protections import Affected, Protection
from fallow.core.reasons import Reason
from fallow.core.unknown import NOT_ASKED, Unknown, known
from fallow.core.value import replace
from fallow.engine.fill.filler import FillerSpec, check_command, check_log, filler_starter
from fallow.engine.fill.newcomers import DeviceNodes, Newcomer, Search
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.protections import labels_with_cards, uuids_with_cards
from fallow.engine.machine.presence import PresenceCheck, PresenceRules
from fallow.engine.machine.walls import Walls
from fallow.policies.arbiter import leave_alone
from fallow.policies.fill import Phase
from fallow.policies.signs import Scene, sign
from fallow.readers.file_events import FileEvents

TICK_S = 1.0
_POLL_S = 0.02
_SHARE_OF_A_CORE = 0.1  # the most that polling may take
_LISTED_AFTER_S, _LISTED_WITHIN_S = 0.025, 0.5  # after an open, until the driver lists the process
_UNSETTLED_S, _UNSETTLED_TICK_S = 1.5, 0.25
_CLAIMS = "claims"
_NEVER_S = float("inf")


class FillLoop:
    """Runs all filler slots, from the start until every filler has left."""

    def __init__(self, run: Run, slots: Sequence[FillerSlot], *, alert: Callable[[], None] = lambda: None) -> None:
        """`alert` is called as soon as a GPU with a filler on it is opened."""
        world = run.world
        demand_own_pids(world.proc)
        self.protections: list[Protection] = []
        """The protections that applied at the last tick."""
        self._world = world
        self._say = run.say
        self._walls = Walls(run.say)
        self._alert = alert
        self._terminals = world.terminals()
        self._slots: list[FillerSlot] = []
        """The first has precedence; those at the end are retired, and leave."""
        self._presence_checks: dict[PresenceRules, PresenceCheck] = {}
        self._presence: dict[PresenceRules, Reason | Unknown | None] = {}
        self._events = FileEvents()
        self._nodes = DeviceNodes(world, run.say, self._events)
        self._search = Search(world.proc, self._is_of_filler, world.clock.monotonic_s)
        self._own_pids = world.proc.in_pid_namespace_of_its_own()
        self._next_poll_s = self._polls_until_s = 0.0
        self._unsettled_until_s = self._decided_s = 0.0
        self._lineages: dict[int, tuple[int, ...]] = {}
        self._said: set[str] = set()
        self.change(slots)

    @property
    def slots(self) -> Sequence[FillerSlot]:
        """Return the slots, those with precedence first."""
        return [slot for slot in self._slots if slot.retired is None]

    def change(self, slots: Sequence[FillerSlot]) -> None:
        """Run these slots from now on. The fillers of slots that are not among them yield in the ordinary way."""
        gone = [slot for slot in self._slots if slot not in slots]
        for slot in gone:
            if slot.retired is None:
                slot.retire(Reason("config_changed"))
        if slots:
            self._events.watch_writes(_CLAIMS, self._world.folder.path)
        self._slots = [*slots, *gone]
        self._presence_checks = {
            rules: self._presence_checks.get(rules) or PresenceCheck(self._world, rules, self._terminals)
            for rules in (slot.spec.presence_rules for slot in slots)
        }
        if self._nodes.watch([gpu for slot in slots for gpu in slot.gpus]):
            self._search.watch(self._nodes.paths)
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
                    filled = all(slot.filled for slot in self._slots)  # else it matters what ran
                    self.tick(self._world.gpu_reader.look(Depth.HOLDERS if filled else Depth.ALL))
                else:
                    self.turn()
                self.wait(next_tick_s)
        finally:
            self.end()
            self.close()

    def wait(self, until_s: float, others: Iterable[int] = ()) -> None:
        """Wait for a file event, a report of a keeper, one of the other descriptors, or the time of the next look."""
        poller = select.poll()  # select(2) takes no descriptor beyond 1023, and a daemon may have thousands
        fillers = (slot.filler.fd for slot in self._slots if slot.filler is not None)
        events = self._events.fds if self._slots else ()  # without slots none is read
        for fd in (*events, *others, *(fd for fd in fillers if fd is not None)):
            poller.register(fd, select.POLLIN)
        now_s = self._world.clock.monotonic_s()
        due_s = min(until_s, self._due_s(now_s), _NEVER_S if self._search.due_s is None else self._search.due_s)
        poller.poll(max(0.0, due_s - now_s) * 1000)

    def tick(self, snapshot: Snapshot) -> None:
        """Do what is due once a tick, with a snapshot that the caller may use for more than this."""
        self.protections = self._world.protections.active(self._world.clock.wall_s(), self._say)
        self._presence = {rules: check.against() for rules, check in self._presence_checks.items()}
        now_s = self._world.clock.monotonic_s()
        self._read_events(now_s)
        self._yield_to(self._search.look(now_s), now_s)
        self._decide(snapshot)

    def turn(self) -> None:
        """Read events, look if they or the time call for it, decide and act. Without slots, do nothing."""
        if not self._slots:
            return
        now_s = self._world.clock.monotonic_s()
        urgent = self._read_events(now_s)
        # While a newcomer comes, the driver is busy with it: a query would wait, and the yield with it.
        if self._yield_to(self._search.look(now_s), now_s) or not (urgent or now_s >= self._due_s(now_s)):
            return
        snapshot = self._world.gpu_reader.look(Depth.HOLDERS)
        looked_s = self._world.clock.monotonic_s() - now_s
        self._next_poll_s = now_s + max(_POLL_S, looked_s / _SHARE_OF_A_CORE)
        self._decide(snapshot)

    def end(self) -> None:
        """Ask all fillers to leave at the same time, and kill those that do not."""
        for slot in self._slots:
            slot.ask_to_end()
        asked_s = self._world.clock.monotonic_s()
        self._report()
        for slot in self._slots:
            slot.end(asked_s + slot.spec.rules.grace_s)

    def kill(self) -> None:
        """Kill all fillers that are on a GPU."""
        for slot in self._slots:
            slot.kill()

    def close(self) -> None:
        """Close the watches."""
        self._events.close()

    def _read_events(self, now_s: float) -> bool:
        """Read file events and the reports of keepers; return whether they are a reason to look at once."""
        self._lineages.clear()
        occupied = {uuid for slot in self._slots if slot.state.phase is Phase.FILLED for uuid in slot.uuids}
        events = self._events.read()
        if events.came & occupied:
            self._alert()
            self._search.begin(now_s)
            if now_s >= self._polls_until_s:
                self._next_poll_s = now_s + _LISTED_AFTER_S
            self._polls_until_s = now_s + _LISTED_WITHIN_S
        elif not occupied:
            self._search.stop()
        if events.left - occupied:  # the driver shows the activity of a process for a moment after it has left
            self._unsettled_until_s = now_s + _UNSETTLED_S
        reported = {slot.listen() for slot in self._slots}
        return True in reported or _CLAIMS in events.came

    def _yield_to(self, newcomers: Sequence[Newcomer], now_s: float) -> bool:
        """Let the fillers leave that mind one of these newcomers; return whether there were any."""
        leaving = False
        for slot in self._slots if newcomers else ():
            minded = next((each for each in newcomers if slot.minds(each)), None)
            if minded is not None and slot.state.phase is Phase.FILLED:
                leaving = True
                with self._around(slot):
                    slot.turn(now_s, minded.reason)
        if leaving:
            self._report()
        return leaving

    def _decide(self, snapshot: Snapshot) -> None:
        self._decided_s = self._world.clock.monotonic_s()
        gpus = {gpu.uuid: gpu for gpu in snapshot.gpus if isinstance(gpu.uuid, str)}
        filled = {uuid: slot for slot in self._slots if slot.marked for uuid in slot.uuids}
        taken: dict[str, FillerSlot] = {}
        for slot in self._slots:
            with self._around(slot):
                ahead = next((taken[uuid] for uuid in slot.uuids if uuid in taken), None)
                against = slot.retired or self._against(slot, gpus, filled, ahead)
                # A filler that yields to this slot, of a later or a retired one, may still be on its GPUs.
                slot.turn(snapshot.at_s, against, room=all(filled.get(uuid, slot) is slot for uuid in slot.uuids))
            if slot.marked or slot.wants:
                taken.update(dict.fromkeys(slot.uuids, slot))
        self._report()
        for slot in [slot for slot in self._slots if slot.retired and slot.filler is None]:
            self._slots.remove(slot)

    def _report(self) -> None:
        """Report what all slots have done, after all have acted: a slow journal must delay no yield."""
        for slot in self._slots:
            with self._walls.around(f"the report on {slot.name}"):
                slot.report()

    def _around(self, slot: FillerSlot) -> AbstractContextManager[None]:
        """Return the wall around a slot: its filler ends where it can no longer be told to leave."""
        return self._walls.around(f"{slot.spec.name} on {slot.name}", slot.kill)

    def _due_s(self, now_s: float) -> float:
        """Return when to look at the GPUs again, if nothing happens before."""
        due = [due_s for slot in self._slots if (due_s := slot.deadline_s) is not None]
        if now_s < self._unsettled_until_s:
            due.append(self._decided_s + _UNSETTLED_TICK_S)
        filled = (slot for slot in self._slots if slot.state.phase is Phase.FILLED)  # else it would delay a newcomer
        if any(now_s < self._polls_until_s or self._nodes.cannot_watch(slot.uuids) for slot in filled):
            due.append(self._next_poll_s)
        return min(due, default=_NEVER_S)

    def _against(
        self,
        slot: FillerSlot,
        gpus: Mapping[str, Gpu],
        filled: Mapping[str, FillerSlot],
        ahead: FillerSlot | None,
    ) -> Reason | Unknown | None:
        """Return the first reason against a filler on these GPUs; a reason goes before an Unknown."""
        found = [self._sign(slot, gpus.get(uuid), uuid, filled=uuid in filled) for uuid in slot.uuids]
        found.append(self._presence.get(slot.spec.presence_rules, Unknown("people at terminals were not read yet")))
        if ahead is not None:
            found.append(Reason("comes_first", filler=ahead.spec.name, gpus=ahead.name))
        return next((each for each in found if isinstance(each, Reason)), None) or next(
            (each for each in found if each is not None), None
        )

    def _sign(self, slot: FillerSlot, gpu: Gpu | None, uuid: str, *, filled: bool) -> Reason | Unknown | None:
        if gpu is None:
            return Unknown(f"GPU {uuid} is not to be seen")
        try:
            reservations = slot.reservations(uuid)
        except FallowError as error:
            return Unknown(str(error))
        if isinstance(gpu.holders, Unknown):
            return sign(Scene(gpu))
        # The driver shows what a filler did for seconds after it has left to make room for this one.
        ours = filled or slot.wants
        ignored = {holder.pid: holder for holder in gpu.holders if self._is_ignored(slot, holder, ours=ours)}
        slot.held_bytes[uuid] = sum(known(holder.memory_bytes, 0) for holder in ignored.values())
        others = [holder for holder in gpu.holders if holder.pid not in ignored]
        describe = self._world.proc.describe
        gpu = replace(gpu, holders=tuple(describe(each) if each.user is NOT_ASKED else each for each in others))
        protection = None
        if self.protections:
            touched = Affected(uuids_with_cards([gpu]), labels=labels_with_cards([gpu]))
            protection = leave_alone(touched, self._world.clock.wall_s(), self.protections)
        reservations = replace(reservations, filler=None) if ours else reservations
        return sign(Scene(gpu, reservations, protection, ours or bool(ignored)))

    def _is_ignored(self, slot: FillerSlot, holder: Holder, *, ours: bool) -> bool:
        if not self._lineage(holder.pid):
            # It has ended since the look, as the children of a sweep do all the time. Or the pid is of another
            # namespace, and cannot be distinguished from the filler's.
            return ours or not self._own_pids
        if self._is_of_filler(holder.pid):
            return True
        names = slot.spec.ignore
        return bool(names) and not self._world.proc.trusted_names(holder.pid).isdisjoint(names)

    def _is_of_filler(self, pid: int) -> bool:
        """Return whether a process belongs to a filler of ours: whether one of our keepers is above it."""
        keepers = {slot.filler.keeper for slot in self._slots if slot.filler is not None}
        return not keepers.isdisjoint(self._lineage(pid))

    def _lineage(self, pid: int) -> tuple[int, ...]:
        """Return the process and those above it; nothing if it has ended. Read once a turn: many slots need it."""
        line = self._lineages.get(pid)
        if line is None:
            line = self._lineages[pid] = self._world.proc.lineage(pid)
        return line

    def _say_limits(self) -> None:
        limits = [
            f"{blind.why}; so nothing is filled, unless people at terminals are ignored (--users ignore)"
            for check in self._presence_checks.values()
            if (blind := check.cannot_see()) is not None
        ]
        if self._own_pids and self._slots:
            limits.append(
                "inside a container only newcomers in the same one are sure to be seen; on the host, all are"
            )
        for sentence in dict.fromkeys(limits):
            if sentence not in self._said:
                self._said.add(sentence)
                self._say(sentence)


def fill_loop(
    run: Run,
    slots: Sequence[tuple[FillerSpec, tuple[Gpu, ...]]],
    say: Callable[[str], None] | None = None,
) -> FillLoop:
    """Return the loop that fills these GPUs; raise FallowError if a command or a log cannot be used.

    `say` gets the sentences of the slots, if they go elsewhere than those of the loop.
    """
    for spec, gpus in slots:
        check_command(spec, run.world.environ)
        if not run.dry_run:
            check_log(spec, gpus)
    slot_run = run if say is None else replace(run, report=Report(say))
    start = filler_starter(run)
    return FillLoop(run, [FillerSlot(slot_run, spec, gpus, start) for spec, gpus in slots])
