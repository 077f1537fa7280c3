"""One place for a filler: its GPUs, where it stands with them, and what is done there."""

from collections.abc import Callable
from typing import assert_never

from fallow.actuators.claims import CardFile
from fallow.actuators.fill_marks import FillMark, mark_filled
from fallow.actuators.line import promises
from fallow.core.errors import FallowError
from fallow.core.fillers import Ask, FillAction, Insist, News, Presence, Resume, Start, Suspend
from fallow.core.gpu import Gpu
from fallow.core.promise import Claim, Promises
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.verdicts import Verdict
from fallow.engine.fill_hands import FillerLike, FillerSpec, FillHands
from fallow.engine.journal import Journal
from fallow.engine.world import World
from fallow.policies.fill import FillDecision, FillLook, FillState, Phase, due_s, step

_RESUME_WITHIN_S = 60.0


class Field:
    """Some GPUs that one filler has, or none."""

    def __init__(
        self,
        world: World,
        spec: FillerSpec,
        gpus: tuple[Gpu, ...],
        hands: FillHands,
        journal: Journal,
        tell: Callable[[str], None],
        words: "Words | None" = None,
    ) -> None:
        """`words` puts news for `tell` into other words than those of `fallow fill`."""
        self.spec = spec
        self.gpus = gpus
        self.uuids = tuple(str(gpu.uuid) for gpu in gpus)
        self.state = FillState()
        self.filler: FillerLike | None = None
        self.yields = 0
        labels = ",".join(gpu.label for gpu in gpus)
        self.name = f"GPU {labels}" if len(gpus) == 1 else f"GPUs {labels}"
        self._world = world
        self._hands = hands
        self._journal = journal
        self._tell_person = tell
        self._words = words or _words_of_fill
        self._keys = [f"gpu:{uuid}" for uuid in self.uuids]
        self._cards: dict[str, CardFile] = {}
        self._marks: list[FillMark] = []
        self._blocked = False
        self._leaving_since_s, self._left_because = 0.0, ""

    @property
    def filled(self) -> bool:
        """Whether there is a filler on the GPUs."""
        return self.filler is not None and self.filler.presence is Presence.RUNNING

    @property
    def deadline_s(self) -> float | None:
        """When there is something to decide if nothing happens before: a grace is over, a card quiet enough."""
        return due_s(self.state, self.spec.rules)

    def promised(self, uuid: str) -> Promises:
        """What is promised of one of the GPUs to others."""
        folder = self._world.folder
        card = self._cards.get(uuid)
        if card is not None and not folder.still_there(uuid, card.fd):
            card.close()
            card = None
        if card is None:
            card = self._cards[uuid] = CardFile(folder.open(uuid))
        return promises(folder, card, self._world.clock.monotonic_s())

    def listen(self) -> bool:
        """Take in what the filler's keeper has reported; whether that changes anything."""
        if self.filler is None:
            return False
        before = self.filler.presence
        self.filler.listen()
        return self.filler.presence is not before

    def turn(self, at_s: float, against: str | Unknown | None) -> None:
        """One look further."""
        presence = Presence.ABSENT if self.filler is None else self.filler.presence
        ended = None if self.filler is None else self.filler.ended
        before = self.state
        decision = step(before, FillLook(at_s, against, presence, ended), self.spec.rules)
        self.state = decision.state
        if presence is not Presence.RUNNING:
            self._unmark()
        if self.filler is not None and presence is Presence.ABSENT:
            self._pass_on_notes(self.filler)
            self.filler.close()
            self.filler = None
        self._record(before, decision, against)
        for action in decision.actions:
            self._do(action, at_s)

    def end(self, grace_s: float) -> None:
        """Whoever asked for the filler leaves; what is suspended stays so, and is told of."""
        filler = self.filler
        if filler is None:
            return
        if filler.presence is Presence.SUSPENDED:
            self._tell(News.NOTE, f"its filler stays suspended as pid {filler.pid}; to end it: kill {filler.pid}")
        else:
            self._wait_until_gone(filler, grace_s)
        self._unmark()
        filler.close()

    def ask_to_end(self) -> None:
        """The first half of ending, so that several leave at the same time."""
        if self.filler is not None and self.filler.presence is Presence.RUNNING:
            self._journal.action(self._subject, "ask to leave", "fallow fill is ended", self._keys)
            self.filler.ask()

    @property
    def _subject(self) -> str:
        return f"{self.spec.name} on {self.name}"

    def _do(self, action: FillAction, at_s: float) -> None:
        match action:
            case Start(because):
                self._start(because)
            case Resume(because):
                self._tell(News.RESUMING, because)
                self._with_filler(lambda filler: filler.resume(_RESUME_WITHIN_S))
            case Ask():
                self._with_filler(lambda filler: filler.ask())
            case Suspend(within_s=within_s):
                self._with_filler(lambda filler: filler.suspend(within_s))
            case Insist():
                self._with_filler(lambda filler: filler.insist())
            case _:
                assert_never(action)
        if isinstance(action, Ask | Suspend) or (isinstance(action, Insist) and self.state.since_s == at_s):
            self._leaving_since_s, self._left_because = at_s, action.because
            self.yields += 1
        self._journal.action(self._subject, type(action).__name__.lower(), action.because, self._keys)

    def _start(self, because: str) -> None:
        """Mark first, look at the claims again, then start: whoever claims looks at the marks after that."""
        label = Claim(False, None, self._world.user, printable(" ".join(self.spec.command)))
        for uuid in self.uuids:
            mark = mark_filled(self._world.folder, uuid, label)
            if mark is not None:
                self._marks.append(mark)
        taken = any(self.promised(uuid).claim is not None for uuid in self.uuids)
        if taken or len(self._marks) < len(self.uuids):
            self._unmark()
            self.state = FillState(at_s=self.state.at_s, failures=self.state.failures)
            return
        try:
            self.filler = self._hands.start(self.spec, self.gpus)
        except FallowError as error:
            self._tell(News.NOTE, str(error))  # the next look finds nobody there, and waits longer each time
            self._unmark()
            return
        if not self.state.failures:
            self._tell(News.FILLING, because)

    def _with_filler(self, do: Callable[[FillerLike], None]) -> None:
        if self.filler is not None:
            do(self.filler)

    def _unmark(self) -> None:
        for mark in self._marks:
            mark.end()
        self._marks.clear()

    def _record(self, before: FillState, decision: FillDecision, against: str | Unknown | None) -> None:
        phase, was = decision.state.phase, before.phase
        blocked = isinstance(against, str)
        if phase is not was:
            self._journal.verdict(Verdict(self._subject, phase.value, decision.because), self._keys)
            self._tell_phase(before, decision)
        elif phase is Phase.QUIET and blocked and not self._blocked:
            self._tell(News.LEFT_ALONE, str(against))
        self._blocked = blocked

    def _tell_phase(self, before: FillState, decision: FillDecision) -> None:
        state = decision.state
        if state.phase is Phase.YIELDING:
            self._tell(News.GIVING_BACK, decision.because)
        elif before.phase is Phase.YIELDING:
            outcome = f"{_short((state.at_s or 0.0) - self._leaving_since_s)}: {decision.because}"
            told = f"{News.GIVEN_BACK}{outcome}; because {self._left_because}"
            self._journal.outcome(self._subject, "yield", told, self._keys)
            self._tell(News.GIVEN_BACK, outcome)
        elif state.phase is Phase.BACKOFF and state.failures == 1:
            self._tell(News.ENDED, f"{decision.because.removeprefix('it ')}; further ends are not told")

    def _pass_on_notes(self, filler: FillerLike) -> None:
        for note in filler.notes:
            self._tell(News.NOTE, note)
        filler.notes.clear()

    def _wait_until_gone(self, filler: FillerLike, grace_s: float) -> None:
        until_s = self._world.clock.monotonic_s() + grace_s
        while filler.presence is not Presence.ABSENT and self._world.clock.monotonic_s() < until_s:
            filler.wait(until_s - self._world.clock.monotonic_s())
        if filler.presence is not Presence.ABSENT:
            filler.insist()
            filler.wait(_RESUME_WITHIN_S)

    def _tell(self, news: News, detail: str) -> None:
        self._tell_person(self._words(self, news, detail))

    def close(self) -> None:
        """Let go of the claim files."""
        for card in self._cards.values():
            card.close()


Words = Callable[[Field, News, str], str]


def _words_of_fill(field: Field, news: News, detail: str) -> str:
    return f"{field.name}: {news}{detail}"


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else duration_for_people(seconds)
