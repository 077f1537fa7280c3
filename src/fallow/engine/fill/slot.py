"""One slot for a filler: its GPUs, its state, its marks on them, the filler itself, and what is reported of it."""

from collections.abc import Callable
from functools import partial

from fallow.actuators.claims.claims import FILLER, Held, take
from fallow.core.board import FillerView
from fallow.core.errors import FallowError
from fallow.core.fillers import FillAction, FillVerb, Presence, Yield
from fallow.core.findings import Verdict, gpu_key
from fallow.core.gpu import Gpu
from fallow.core.notices import Notice
from fallow.core.reasons import Reason
from fallow.core.reservations import Reservations
from fallow.core.units import duration_for_people, program_name
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.fill.filler import FillerLike, FillerSpec, Start
from fallow.engine.fill.newcomers import HAS_BEGUN_CUDA, MONITORS, Newcomer
from fallow.engine.history.run import Run
from fallow.engine.machine.claims_seen import our_note, seen_reservations
from fallow.policies.fill import FillDecision, FillLook, FillState, Phase, due_s, step

_RESUME_WITHIN_S = 60.0
_KEEPER_ANSWERS_WITHIN_S = 8.0  # after 5 s it gives up on processes that cannot be killed, and reports them
_GIVEN_UP_AFTER = 5  # failures in a row: then a notice is sent


class FillerSlot:
    """GPUs that at most one filler uses at a time."""

    def __init__(self, run: Run, spec: FillerSpec, gpus: tuple[Gpu, ...], start: Start, *, prefix: str = "") -> None:
        """`prefix`: what the sentences of the slot begin with."""
        self.spec = spec
        self.gpus = gpus
        self.uuids = tuple(str(gpu.uuid) for gpu in gpus)
        self.state = FillState()
        self.filler: FillerLike | None = None
        self.wants = False
        """Whether it would be on its GPUs now, if other fillers had left them."""
        self.retired: Reason | None = None
        """Why the slot is given up; None while it is in use."""
        labels = tuple(gpu.label for gpu in gpus)
        self.name = f"GPU{'' if len(gpus) == 1 else 's'} {','.join(labels)}"
        self.held_bytes: dict[str, int] = {}
        """How much memory the filler held on each GPU at the last look."""
        prefix = f"dry run: {prefix}" if run.dry_run else prefix
        self._run = replace(run, report=run.report.prefixed(prefix))
        self._world = run.world
        self._start_filler = start
        self._marks: list[Held] = []
        self._kill_sent_s: float | None = None
        self._labels = labels
        self._keys = [gpu_key(uuid) for uuid in self.uuids]
        self._reason, self._since_s = Reason("not_read_yet"), run.world.clock.monotonic_s()
        self._untold: list[Callable[[], None]] = []
        self._left_alone = False
        self._yielding_reason = self._reason
        self._yields = 0
        self._last_yield_s: float | None = None

    @property
    def filled(self) -> bool:
        """Return whether there is a filler on the GPUs."""
        return self.filler is not None and self.filler.presence is Presence.RUNNING

    @property
    def marked(self) -> bool:
        """Return whether the GPUs are marked as filled, so that no other filler can use them."""
        return bool(self._marks)

    @property
    def deadline_s(self) -> float | None:
        """Return when the next decision is due if nothing happens before: a grace is over, or a GPU quiet enough."""
        return None if self.wants else due_s(self.state, self.spec.rules)

    def view(self, now_s: float) -> FillerView:
        """Return the state of the slot for status and page."""
        return FillerView(
            self.spec.name,
            self._labels,
            self.uuids,
            self.state.phase.value,
            self._reason,
            max(0.0, now_s - self._since_s),
            None if self.filler is None else self.filler.pid,
            self._yields,
            self._last_yield_s,
        )

    def minds(self, newcomer: Newcomer) -> bool:
        """Return whether the filler has to leave for who has opened a device node."""
        begun = newcomer.opens >= (1 if self.spec.eager else HAS_BEGUN_CUDA)
        return begun and newcomer.uuid in self.uuids and newcomer.names.isdisjoint(MONITORS.union(self.spec.ignore))

    def reservations(self, uuid: str) -> Reservations:
        """Return what reserves one of the GPUs."""
        self._world.folder.refresh()
        return seen_reservations(self._world, uuid)

    def listen(self) -> bool:
        """Read the reports of the filler's keeper; return whether they change anything.

        Once the filler is off the GPUs, their marks are removed.
        """
        if self.filler is None:
            return False
        before = self.filler.presence
        self.filler.listen()
        if self.filler.presence is not Presence.RUNNING:
            self._unmark()
        self._say_notes(self.filler)
        return self.filler.presence is not before

    def turn(self, at_s: float, against: Reason | Unknown | None, *, room: bool = True) -> None:
        """Decide and act on one look. `report` says so, after all slots: a slow journal must delay no yield."""
        presence = Presence.ABSENT if self.filler is None else self.filler.presence
        ended = None if self.filler is None else self.filler.ended
        before = self.state
        decision = step(before, FillLook(at_s, against, presence, ended, room), self.spec.rules)
        self.state, self.wants, self._reason = decision.state, decision.wants, decision.reason
        if self.filler is not None and presence is Presence.ABSENT:
            self._say_notes(self.filler)
            self.filler.close()
            self.filler = None
        for action in decision.actions:
            self._perform(action)
        self._kill_silent_keeper(at_s)
        self._untold.append(partial(self._report_turn, before, decision, against))

    def report(self) -> None:
        """Write to the journal, and say, what was done since the last report."""
        untold, self._untold = self._untold, []
        for tell in untold:
            tell()

    def retire(self, reason: Reason) -> None:
        """Give the slot up: its filler yields in the ordinary way, and a suspended one is killed."""
        self.retired, self.wants = reason, False
        if self.spec.rules.manner is Yield.SUSPEND:
            self.spec = replace(self.spec, rules=replace(self.spec.rules, manner=Yield.TERM))
        if self.filler is not None and self.filler.presence is Presence.SUSPENDED:
            self._say(f"its suspended filler is ended: {reason}")
            self.filler.kill()

    def ask_to_end(self) -> None:
        """Ask the filler to leave, before `end` waits for it, so that several leave at the same time."""
        if self.filler is not None and self.filler.presence is Presence.RUNNING:
            self.filler.ask()
            reason = Reason("fallow_ends")
            self._untold.append(partial(self._run.journal.action, self._subject, "ask to leave", reason, self._keys))

    def end(self, until_s: float) -> None:
        """End the filler, by force after `until_s`. A suspended one stays suspended, and its pid is reported."""
        filler = self.filler
        if filler is None:
            return
        if filler.presence is Presence.SUSPENDED:
            self._say(f"its filler stays suspended as pid {filler.pid}; to end it: kill {filler.pid}")
        else:
            self._wait_until_gone(filler, until_s)
        self._unmark()
        filler.close()
        self.filler = None

    def kill(self) -> None:
        """Kill the filler, unless it is off its GPUs."""
        if self.filler is not None and self.filled:
            self.filler.kill()

    @property
    def _subject(self) -> str:
        return f"{self.spec.name} on {self.name}"

    def _perform(self, action: FillAction) -> None:
        done, filler = True, self.filler
        match action.verb:
            case FillVerb.START:
                done = self._begin("filling it", action.reason)
            case FillVerb.RESUME:
                done = self._begin("resuming the filler", action.reason)
            case FillVerb.ASK if filler is not None:
                filler.ask()
            case FillVerb.SUSPEND if filler is not None:
                filler.suspend(self.spec.rules.suspend_within_s, sum(self.held_bytes.values()))
            case FillVerb.KILL if filler is not None:
                filler.kill()
        self._untold.append(partial(self._report_action, action, done=done))

    def _kill_silent_keeper(self, at_s: float) -> None:
        """Kill the filler together with a keeper that was ordered to kill it and has not answered in time."""
        if not self.state.killed:
            self._kill_sent_s = None
        elif self._kill_sent_s is None:
            self._kill_sent_s = at_s
        elif at_s - self._kill_sent_s >= _KEEPER_ANSWERS_WITHIN_S and self.filler is not None:
            self._say("the filler's keeper does not answer, so both are killed")
            self._kill_sent_s = at_s
            self.filler.kill_with_keeper()

    def _begin(self, what: str, reason: Reason) -> bool:
        """Mark the GPUs, read the claims again, then start: a launch reads the marks after it has claimed."""
        try:
            if not self._mark():
                self._unmark()
                self.state = FillState(at_s=self.state.at_s, failures=self.state.failures)
                return False
            if self.filler is None:
                self.filler = self._start_filler(self.spec, self.gpus)
            else:
                self.filler.resume(_RESUME_WITHIN_S)
        except FallowError as error:
            self._say(str(error))  # the next look finds no filler, and the pause is doubled
            self._unmark()
            return False
        if not self.state.failures:
            self._say(f"{what}: {reason}")
        return True

    def _mark(self) -> bool:
        """Mark all GPUs as filled; return whether that succeeded and none is claimed."""
        for uuid in self.uuids:
            note = our_note(self._world, program_name(self.spec.command[0]))
            mark = take(self._world.folder, uuid, note, FILLER)
            if mark is None:
                return False
            self._marks.append(mark)
        return all(self.reservations(uuid).claim is None for uuid in self.uuids)

    def _unmark(self) -> None:
        for mark in self._marks:
            mark.end()
        self._marks.clear()

    def _wait_until_gone(self, filler: FillerLike, until_s: float) -> None:
        while filler.presence is not Presence.ABSENT and self._world.clock.monotonic_s() < until_s:
            filler.wait(until_s - self._world.clock.monotonic_s())
        if filler.presence is not Presence.ABSENT:
            filler.kill()
            filler.wait(_KEEPER_ANSWERS_WITHIN_S)
        if filler.presence is not Presence.ABSENT:
            filler.kill_with_keeper()
        self._say_notes(filler)

    def _say(self, sentence: str) -> None:
        self._run.say(f"{self.name}: {sentence}")

    def _say_notes(self, filler: FillerLike) -> None:
        """Report the notes of the filler's keeper."""
        for note in filler.notes:
            self._say(note)
        filler.notes.clear()

    def _report_action(self, action: FillAction, *, done: bool) -> None:
        result = "failed" if not done else "dry_run" if self._run.dry_run else "done"
        self._run.report.tally.action(action.verb, result)
        self._run.journal.action(self._subject, action.verb, action.reason, self._keys)

    def _report_turn(self, before: FillState, decision: FillDecision, against: Reason | Unknown | None) -> None:
        """Report what a decision changed."""
        phase = decision.state.phase
        if phase is not before.phase:
            self._since_s = self._world.clock.monotonic_s()
            self._run.journal.verdict(Verdict(self._subject, phase.value, decision.reason), self._keys)
            self._report_phase(before, decision)
        elif phase is Phase.QUIET and against is not None and not self._left_alone and self.retired is None:
            self._run.journal.verdict(Verdict(self._subject, "left alone", decision.reason), self._keys)
            self._say(f"left alone: {decision.because}")
        self._left_alone = against is not None

    def _report_phase(self, before: FillState, decision: FillDecision) -> None:
        state = decision.state
        if state.phase is Phase.YIELDING:
            self._yields += 1
            self._yielding_reason = decision.reason
            self._say(f"giving it back: {decision.because}")
        elif before.phase is Phase.YIELDING:
            self._report_yield(max(0.0, (state.at_s or 0.0) - before.since_s), decision)
        elif state.phase is Phase.BACKOFF and state.failures == 1:
            self._say(f"the filler {decision.ended}; further ends are not reported")
        elif state.phase is Phase.BACKOFF and state.failures == _GIVEN_UP_AFTER:
            again = f"has ended soon after its start {state.failures} times in a row; {decision.because}"
            self._say(f"the filler {again}")
            self._run.report.notify(Notice("filler_given_up", self._keys[0], f"{self._subject} {again}"))

    def _report_yield(self, took_s: float, decision: FillDecision) -> None:
        self._last_yield_s = took_s
        self._run.report.tally.yielded(self.spec.name, took_s)
        took = f"{took_s * 1000:.0f} ms" if took_s < 1 else duration_for_people(took_s)
        outcome = f"given back after {took}: {decision.because}"
        because = f"{outcome}; because {self._yielding_reason}"
        self._run.journal.outcome(self._subject, "yield", because, self._keys)
        self._say(outcome)
