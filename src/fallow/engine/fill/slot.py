"""One slot for a filler: its GPUs, its state, its marks on them, and the filler itself."""

import os
from collections.abc import Callable
from typing import assert_never

from fallow.actuators.claims.claims import CardFile
from fallow.actuators.claims.fill_marks import FillMark, mark_filled
from fallow.actuators.claims.queue import Queue
from fallow.core.board import FillerView
from fallow.core.errors import FallowError
from fallow.core.fillers import (
    Ask,
    FillAction,
    Kill,
    News,
    Presence,
    Resume,
    Start,
    Suspend,
    Yield,
)
from fallow.core.gpu import Gpu
from fallow.core.reservations import Claim, Reservations
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.fill.slot_report import SlotReport, Words, words_of_fill
from fallow.engine.fill.start import FillerLike, FillerSpec, FillerStarter
from fallow.engine.history.run import Run
from fallow.engine.machine.claim_holders import awake, claim_on, stands
from fallow.policies.fill import (
    FillLook,
    FillState,
    due_s,
    step,
)

_RESUME_WITHIN_S = 60.0
_KEEPER_ANSWERS_WITHIN_S = 8.0  # it gives up on those that cannot be killed after 5 s, and says so
_STAY_S = 1.0  # so long after a newcomer's first open its context is made, and memory has been given to it


class FillerSlot:
    """Some GPUs that one filler has, or none."""

    def __init__(
        self,
        run: Run,
        spec: FillerSpec,
        gpus: tuple[Gpu, ...],
        starter: FillerStarter,
        words: Words = words_of_fill,
    ) -> None:
        """`words` puts its news into other words than those of `fallow fill`."""
        self.spec = spec
        self.gpus = gpus
        self.uuids = tuple(str(gpu.uuid) for gpu in gpus)
        self.state = FillState()
        self.filler: FillerLike | None = None
        self.wants = False
        """It would be on its GPUs now, if others made way."""
        self.left_s: float | None = None
        """When its filler was last seen to be off the GPUs."""
        self.retired: str | None = None
        """Why it is given up, once it is."""
        labels = ",".join(gpu.label for gpu in gpus)
        self.name = f"GPU {labels}" if len(gpus) == 1 else f"GPUs {labels}"
        self._world = run.world
        self._starter = starter
        self._report = SlotReport(self, run, words)
        self._cards: dict[str, CardFile] = {}
        self._line = Queue(run.world.folder, stands(run.world), awake(run.world))
        self._marks: list[FillMark] = []
        self._killed_s: float | None = None
        self._freed_s: float | None = None

    @property
    def filled(self) -> bool:
        """Whether there is a filler on the GPUs."""
        return self.filler is not None and self.filler.presence is Presence.RUNNING

    @property
    def marked(self) -> bool:
        """Whether the GPUs are marked as filled: nobody else can fill them."""
        return bool(self._marks)

    @property
    def deadline_s(self) -> float | None:
        """When there is something to decide if nothing happens before: a grace is over, a card quiet enough."""
        return None if self.wants else due_s(self.state, self.spec.rules)

    def view(self, now_s: float) -> FillerView:
        """Where it stands, for whoever looks."""
        return FillerView(
            self.spec.name,
            tuple(gpu.label for gpu in self.gpus),
            self.uuids,
            self.state.phase.value,
            self._report.because,
            max(0.0, now_s - self._report.since_s),
            None if self.filler is None else self.filler.pid,
            self._report.yields,
            self._report.last_yield_s,
        )

    def promised(self, uuid: str) -> Reservations:
        """What is promised of one of the GPUs to others."""
        folder = self._world.folder
        card = self._cards.get(uuid)
        if card is not None and not folder.still_there(uuid, card.fd):
            self._cards.pop(uuid).close()
            card = None
            folder.refresh()
            self._mark_anew(uuid)
        if card is None:
            card = self._cards[uuid] = CardFile(folder.open(uuid))
        promised = self._line.promises(card, self._world.clock.monotonic_s())
        return promised if promised.claim is None else replace(promised, claim=claim_on(self._world, card))

    def _mark_anew(self, uuid: str) -> None:
        """Somebody cleaned the folder of claims: a mark in a file that is gone binds nobody."""
        mark = mark_filled(self._world.folder, uuid, self._label) if self._marks else None
        if mark is not None:
            self._marks.append(mark)

    def listen(self) -> bool:
        """Take in what the filler's keeper has reported; whether that changes anything.

        Once the filler is off the GPUs they are nobody's again.
        """
        if self.filler is None:
            return False
        before = self.filler.presence
        self.filler.listen()
        self._freed_s = self.filler.freed_s
        if self.filler.presence is not Presence.RUNNING:
            self._unmark()
        self._report.notes_of(self.filler)
        return self.filler.presence is not before

    def turn(self, at_s: float, against: str | Unknown | None, *, room: bool = True) -> None:
        """One look further. To act comes first: a journal on a slow disk must not delay a yield."""
        presence = Presence.ABSENT if self.filler is None else self.filler.presence
        ended = None if self.filler is None else self.filler.ended
        before = self.state
        decision = step(before, FillLook(at_s, against, presence, ended, room), self.spec.rules)
        self.state, self.wants, self._report.because = decision.state, decision.wants, decision.because
        if self.filler is not None and presence is Presence.ABSENT:
            self._report.notes_of(self.filler)
            self.filler.close()
            self.filler = None
        for action in decision.actions:
            self._do(action, at_s)
        self._see_to_it(at_s)
        self._report.turn(before, decision, against, self._freed_s)

    def retire(self, because: str) -> None:
        """Give the place up: its filler leaves in the ordinary way, and one that is suspended ends."""
        self.retired, self.wants = because, False
        if self.spec.rules.manner is Yield.SUSPEND:
            self.spec = replace(self.spec, rules=replace(self.spec.rules, manner=Yield.TERM))
        if self.filler is not None and self.filler.presence is Presence.SUSPENDED:
            self._report.say(News.NOTE, f"its suspended filler is ended: {because}")
            self.filler.insist()

    def end(self, until_s: float) -> None:
        """Whoever asked for the filler leaves; what is suspended stays so, and is told of."""
        filler = self.filler
        if filler is None:
            return
        if filler.presence is Presence.SUSPENDED:
            self._report.say(
                News.NOTE, f"its filler stays suspended as pid {filler.pid}; to end it: kill {filler.pid}"
            )
        else:
            self._wait_until_gone(filler, until_s)
        self._unmark()
        filler.close()
        self.filler = None

    def ask_to_end(self) -> None:
        """The first half of ending, so that several leave at the same time."""
        if self.filler is not None and self.filler.presence is Presence.RUNNING:
            self.filler.ask()
            self._report.asked_to_end()

    def close(self) -> None:
        """Let go of the claim files."""
        for card in self._cards.values():
            card.close()
        self._cards.clear()

    @property
    def _label(self) -> Claim:
        return Claim(False, os.getpid(), self._world.user, program_name(self.spec.command[0]))

    def _do(self, action: FillAction, at_s: float) -> None:
        done = True
        match action:
            case Start(because):
                done = self._let_in(News.FILLING, because, self._start)
            case Resume(because):
                done = self._let_in(News.RESUMING, because, self._resume)
            case Ask():
                self._with_filler(lambda filler: filler.ask(self._may_stay_s()))
            case Suspend(within_s=within_s):
                self._with_filler(lambda filler: filler.suspend(within_s))
            case Kill():
                self._with_filler(lambda filler: filler.insist())
            case _:
                assert_never(action)
        if isinstance(action, Ask | Suspend) or (isinstance(action, Kill) and self.state.since_s == at_s):
            self._report.yield_begins(at_s, action.because)
        self._report.action(action, done=done)

    def _see_to_it(self, at_s: float) -> None:
        """A keeper that was told to insist, and has not answered in time, is killed with the filler."""
        if not self.state.killed:
            self._killed_s = None
        elif self._killed_s is None:
            self._killed_s = at_s
        elif at_s - self._killed_s >= _KEEPER_ANSWERS_WITHIN_S and self.filler is not None:
            self._report.say(News.NOTE, "the filler's keeper does not answer, so both are killed")
            self._killed_s = at_s
            self.filler.kill()

    def _let_in(self, news: News, because: str, begin: Callable[[], None]) -> bool:
        """Mark first, look at the claims again, then begin: whoever claims looks at the marks after that."""
        try:
            if not self._mark():
                self._unmark()
                self.state = FillState(at_s=self.state.at_s, failures=self.state.failures)
                return False
            begin()
        except FallowError as error:
            self._report.say(News.NOTE, str(error))  # the next look finds nobody there, and waits longer each time
            self._unmark()
            return False
        if not self.state.failures:
            self._report.say(news, because)
        return True

    def _mark(self) -> bool:
        """Whether all GPUs are ours to fill."""
        for uuid in self.uuids:
            mark = mark_filled(self._world.folder, uuid, self._label)
            if mark is None:
                return False
            self._marks.append(mark)
        return all(self.promised(uuid).claim is None for uuid in self.uuids)

    def _start(self) -> None:
        self.filler = self._starter.start(self.spec, self.gpus)

    def _resume(self) -> None:
        self._with_filler(lambda filler: filler.resume(_RESUME_WITHIN_S))

    def _with_filler(self, do: Callable[[FillerLike], None]) -> None:
        if self.filler is not None:
            do(self.filler)

    def _may_stay_s(self) -> float:
        """How long the filler may stay without its memory: whoever has claimed the GPU waits until it is gone."""
        claimed = any(self.promised(uuid).claim is not None for uuid in self.uuids)
        return 0.0 if claimed else min(_STAY_S, self.spec.rules.grace_s / 2)

    def _unmark(self) -> None:
        if self._marks:
            self.left_s = self._world.clock.monotonic_s()
        for mark in self._marks:
            mark.end()
        self._marks.clear()

    def _wait_until_gone(self, filler: FillerLike, until_s: float) -> None:
        while filler.presence is not Presence.ABSENT and self._world.clock.monotonic_s() < until_s:
            filler.wait(until_s - self._world.clock.monotonic_s())
        if filler.presence is not Presence.ABSENT:
            filler.insist()
            filler.wait(_KEEPER_ANSWERS_WITHIN_S)
        if filler.presence is not Presence.ABSENT:
            filler.kill()
        self._report.notes_of(filler)
