"""What a filler slot reports: sentences for people, rows of the journal, counts for the metrics, and notices."""

from fallow.core.fillers import FillAction
from fallow.core.findings import Verdict, gpu_key
from fallow.core.notices import Notice
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.engine.fill.start import FillerLike
from fallow.engine.history.run import Run
from fallow.policies.fill import FillDecision, FillState, Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.fill.slot import FillerSlot

_GIVEN_UP_AFTER = 5  # failures in a row: then a notice is sent


class SlotReport:
    """Reports what changes in one slot, each thing once."""

    def __init__(self, slot: "FillerSlot", run: Run) -> None:
        self.reason, self.since_s = Reason("not_read_yet"), run.world.clock.monotonic_s()
        self.yields = 0
        self.last_yield_s: float | None = None
        self.keys = [gpu_key(uuid) for uuid in slot.uuids]
        self._slot = slot
        self._run = run
        self._yielding_since_s, self._yielding_reason = 0.0, self.reason
        self._blocked = False

    def say(self, sentence: str) -> None:
        """Report one sentence."""
        self._run.say(f"{self._slot.name}: {sentence}")

    def action(self, action: FillAction, *, done: bool) -> None:
        """Record an action and its result."""
        result = "failed" if not done else "dry_run" if self._run.dry_run else "done"
        self._run.report.tally.action(action.verb, result)
        self._run.journal.action(self._subject, action.verb, action.reason, self.keys)

    def asked_to_end(self) -> None:
        """Record that the filler was asked to leave because fallow ends."""
        self._run.journal.action(self._subject, "ask to leave", Reason("fallow_ends"), self.keys)

    def yield_begins(self, at_s: float, reason: Reason) -> None:
        """Remember when a yield began and why."""
        self._yielding_since_s, self._yielding_reason = at_s, reason
        self.yields += 1

    def notes_of(self, filler: FillerLike) -> None:
        """Report the notes of the filler's keeper."""
        for note in filler.notes:
            self.say(note)
        filler.notes.clear()

    def turn(self, before: FillState, decision: FillDecision, against: Reason | Unknown | None) -> None:
        """Report what a decision changed."""
        phase, was = decision.state.phase, before.phase
        if phase is not was:
            self.since_s = self._run.world.clock.monotonic_s()
            self._run.journal.verdict(Verdict(self._subject, phase.value, decision.reason), self.keys)
            self._say_phase(before, decision)
        elif phase is Phase.QUIET and against is not None and not self._blocked and self._slot.retired is None:
            self._run.journal.verdict(Verdict(self._subject, "left alone", decision.reason), self.keys)
            self.say(f"left alone: {decision.because}")
        self._blocked = against is not None

    @property
    def _subject(self) -> str:
        return f"{self._slot.spec.name} on {self._slot.name}"

    def _say_phase(self, before: FillState, decision: FillDecision) -> None:
        state = decision.state
        if state.phase is Phase.YIELDING:
            self.say(f"giving it back: {decision.because}")
        elif before.phase is Phase.YIELDING:
            took_s = max(0.0, (state.at_s or 0.0) - self._yielding_since_s)
            self.last_yield_s = took_s
            self._run.report.tally.yielded(self._slot.spec.name, took_s)
            took = f"{took_s * 1000:.0f} ms" if took_s < 1 else duration_for_people(took_s)
            outcome = f"given back after {took}: {decision.because}"
            self._run.journal.outcome(
                self._subject, "yield", f"{outcome}; because {self._yielding_reason}", self.keys
            )
            self.say(outcome)
        elif state.phase is Phase.BACKOFF and state.failures == 1:
            self.say(f"the filler {decision.ended}; further ends are not reported")
        elif state.phase is Phase.BACKOFF and state.failures == _GIVEN_UP_AFTER:
            again = f"has ended soon after its start {state.failures} times in a row; {decision.because}"
            self.say(f"the filler {again}")
            self._run.report.notify(Notice("filler_given_up", self.keys[0], f"{self._subject} {again}"))
