"""Several fillers on the same cards: never two on one, and the first that may be there always ends up there."""

import errno
import os
import pathlib
import resource
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fallow.core.fillers import Yield
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.fill.filler import FillerSpec
from fallow.engine.fill.loop import FillLoop
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.clock import minute_of_day
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules, Phase
from tests.core.gpus import held, idle
from tests.engine.fill.driven_fillers import DrivenFiller, DrivenFillerStarter
from tests.harness import ManualClock
from tests.length import examples

CARDS = 3
CALM_S = 60
STATES = ("idle", "held", "unknown")
HOUR_S = 3600.0
BEGAN_WALL_S = ManualClock().wall_s()
THIS_MINUTE = (minute_of_day(BEGAN_WALL_S), minute_of_day(BEGAN_WALL_S + 60))


class Wish(NamedTuple):
    """One filler of the config: which cards, and how it is."""

    cards: tuple[int, ...]
    idle_for_s: float = 2.0
    leaves_in_s: float = 0.0
    manner: Yield = Yield.TERM
    between: tuple[int, int] | None = None


def gpu(index: int, state: str) -> Gpu:
    match state:
        case "held":
            return held(index, pid=os.getpid())  # somebody who is there, and no filler
        case "worked":
            return idle(index, utilization=0.4)  # as the driver shows it for a moment after a filler has left
        case "unknown":
            return idle(index, holders=Unknown("as drawn"))
    return idle(index)


class Machine:
    """Places on scripted cards, in driven time."""

    def __init__(self, folder: str, wishes: Sequence[Wish]) -> None:
        self.clock = ManualClock()
        self.world = World({"FALLOW_CLAIM_DIR": folder}, clock=self.clock)
        self.journal = Journal("/dev/null/nowhere", self.clock.wall_s, lambda _: None)
        self.told: list[str] = []
        self.run = Run(self.world, self.journal, Report(self.told.append))
        self.starter = [DrivenFillerStarter(self.clock, wish.leaves_in_s) for wish in wishes]
        self.slots = [self.slot(number, wish) for number, wish in enumerate(wishes)]
        self.fill_loop = FillLoop(self.run, self.slots)

    def slot(self, number: int, wish: Wish) -> FillerSlot:
        spec = FillerSpec(
            ("true",),
            FillRules(wish.idle_for_s, wish.manner, grace_s=60.0),
            PresenceRules(mind_users=False, between=wish.between),
            name=f"filler-{number}",
            together=True,
        )
        gpus = tuple(idle(index) for index in wish.cards)
        return FillerSlot(self.run, spec, gpus, self.starter[number].start)

    def tick(self, states: Sequence[str]) -> None:
        gpus = tuple(gpu(index, state) for index, state in enumerate(states))
        self.clock.sleep(1.0)
        at_s, wall_s = self.clock.now_s, self.clock.wall_s()
        self.fill_loop.tick(Snapshot("scripted", simulated=False, at_s=at_s, wall_s=wall_s, gpus=gpus))

    def on(self, card: int) -> list[str]:
        """The fillers that are on a card now."""
        uuid = str(idle(card).uuid)
        return [slot.spec.name for slot in self.slots if slot.filled and uuid in slot.uuids]

    def close(self) -> None:
        self.fill_loop.close()
        self.world.close()


@contextmanager
def machine(*wishes: Wish) -> Iterator[Machine]:
    with tempfile.TemporaryDirectory() as folder:
        made = Machine(str(pathlib.Path(folder) / "claims"), wishes)
        try:
            yield made
        finally:
            made.close()


wish = st.builds(
    Wish,
    cards=st.sets(st.integers(0, CARDS - 1), min_size=1).map(lambda cards: tuple(sorted(cards))),
    idle_for_s=st.sampled_from((0.0, 2.0, 7.0)),
    leaves_in_s=st.sampled_from((0.0, 1.5, 4.0)),
    manner=st.sampled_from(Yield),
    between=st.none(),
)
stretch = st.tuples(st.lists(st.sampled_from(STATES), min_size=CARDS, max_size=CARDS), st.integers(1, 15))


def deserving(wishes: Sequence[Wish]) -> dict[int, str]:
    """Who is on which card in the end where nothing speaks against anybody: each takes what those before it left."""
    taken: dict[int, str] = {}
    for number, each in enumerate(wishes):
        if taken.keys().isdisjoint(each.cards):
            taken.update(dict.fromkeys(each.cards, f"filler-{number}"))
    return taken


@pytest.mark.more
@settings(max_examples=examples(150), deadline=None)
@given(st.lists(wish, min_size=1, max_size=4), st.lists(stretch, max_size=6))
def test_no_card_ever_has_two_fillers_and_in_the_end_the_first_has_it(
    wishes: list[Wish], history: list[tuple[list[str], int]]
) -> None:
    with machine(*wishes) as made:
        for states, ticks in history:
            for _ in range(ticks):
                made.tick(states)
                crowded = {card: made.on(card) for card in range(CARDS) if len(made.on(card)) > 1}
                assert not crowded
        for _ in range(CALM_S):
            made.tick(["idle"] * CARDS)
            assert all(len(made.on(card)) <= 1 for card in range(CARDS))
        expected = deserving(wishes)
        assert {card: made.on(card) for card in range(CARDS)} == {
            card: [expected[card]] if card in expected else [] for card in range(CARDS)
        }
        event(f"made way for each other: {any('comes first' in sentence for sentence in made.told)}")


def test_one_that_has_to_make_way_does_so_through_an_ordinary_yield() -> None:
    with machine(Wish((0,), idle_for_s=5.0), Wish((0,), idle_for_s=0.0, leaves_in_s=2.0)) as made:
        first, second = made.slots
        for _ in range(3):
            made.tick(["idle"] * CARDS)
        assert made.on(0) == ["filler-1"]
        while second.state.phase is not Phase.YIELDING:
            made.tick(["idle"] * CARDS)
        assert first.wants
        assert made.on(0) == ["filler-1"], "it is still there: it has its grace"
        made.tick(["worked"] * CARDS)
        made.tick(["worked"] * CARDS)
        assert made.on(0) == ["filler-0"], "the moment there is room"
        assert "giving it back: filler-0 comes first on GPU 0" in " ".join(made.told)


def test_the_first_gives_its_place_to_the_second_while_its_own_rules_forbid_it() -> None:
    with machine(Wish((0,), between=THIS_MINUTE), Wish((0,))) as made:
        for later_s, expected in ((0.0, "filler-0"), (HOUR_S, "filler-1"), (-HOUR_S, "filler-0")):
            made.clock.wall_offset_s += later_s
            for _ in range(12):
                made.tick(["idle"] * CARDS)
            assert made.on(0) == [expected]


def test_one_that_always_dies_does_not_keep_the_other_out() -> None:
    with machine(Wish((0,), idle_for_s=0.0), Wish((0,), idle_for_s=0.0)) as made:
        seconds_of_the_other = 0
        for _ in range(600):
            made.tick(["idle"] * CARDS)
            for _, _, filler in made.starter[0].started[-1:]:
                filler.die()
            seconds_of_the_other += made.on(0) == ["filler-1"]
        assert len(made.starter[0].started) < 15
        assert seconds_of_the_other > 400


@pytest.mark.parametrize("way", ["gone", "reordered"])
def test_a_change_lets_those_go_that_are_not_wanted_any_more(way: str) -> None:
    with machine(Wish((0,)), Wish((0,)), Wish((1,))) as made:
        first, second, third = made.slots
        for _ in range(5):
            made.tick(["idle"] * CARDS)
        stays = made.starter[2].started[0][2]
        made.fill_loop.change([second, third] if way == "gone" else [second, first, third])
        for _ in range(10):
            made.tick(["idle"] * CARDS)
        assert (first.filled, second.filled) == (False, True)
        assert third.filler is stays, "nobody touched it"


def test_what_is_suspended_ends_when_its_place_is_given_up() -> None:
    with machine(Wish((0,), manner=Yield.SUSPEND)) as made:
        (slot,) = made.slots
        for states in (["idle"] * CARDS,) * 5 + (["held"] * CARDS,) * 2:
            made.tick(states)
        assert slot.filler is not None
        made.fill_loop.change([])
        made.tick(["idle"] * CARDS)
        assert slot.filler is None
        assert "its suspended filler is ended: the config has changed" in " ".join(made.told)


def test_a_filler_is_asked_to_leave_also_where_the_claim_folder_cannot_be_opened(tmp_path: pathlib.Path) -> None:
    with machine(Wish((0,))) as made:
        (slot,) = made.slots
        for _ in range(5):
            made.tick(["idle"] * CARDS)
        assert slot.filled
        folder = pathlib.Path(made.world.folder.path)
        folder.rename(tmp_path / "claims")
        folder.touch()
        for _ in range(15):
            made.tick(["held"] * CARDS)
        assert not slot.filled
        assert not any(" failed: " in sentence for sentence in made.told), "it would be killed then"


class Deaf(DrivenFiller):
    """Cannot be asked: its socket is broken."""

    def ask(self) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    def kill(self, _: float = 0.0) -> None:
        self.die()


def test_a_slot_that_fails_keeps_no_other_from_its_turn_and_its_filler_is_killed() -> None:
    with machine(Wish((0,)), Wish((1,))) as made:
        broken, other = made.slots
        for _ in range(5):
            made.tick(["idle"] * CARDS)
        broken.filler = Deaf(made.clock, 0.0)
        for _ in range(5):
            made.tick(["held"] * CARDS)
        assert (broken.filled, other.filled) == (False, False)
        (told,) = [sentence for sentence in made.told if "Bad file descriptor" in sentence]
        assert told.startswith("filler-0 on GPU 0 failed: ")


class Watching(DrivenFiller):
    """Counts the rows of the journal when it is asked to leave."""

    def __init__(self, clock: ManualClock, journal: Journal) -> None:
        super().__init__(clock, 0.0)
        self._journal = journal
        self.rows = -1

    def ask(self) -> None:
        self.rows = len(self._journal.last(None, 100))
        super().ask()


def test_no_yield_waits_for_a_row_about_another(tmp_path: pathlib.Path) -> None:
    with machine(Wish((0,)), Wish((1,))) as made:
        journal = made.journal = Journal(str(tmp_path), made.clock.wall_s, made.told.append)
        made.run = replace(made.run, journal=journal)
        made.slots = [made.slot(0, Wish((0,))), made.slot(1, Wish((1,)))]
        made.fill_loop.change(made.slots)
        for _ in range(5):
            made.tick(["idle"] * CARDS)
        watching = [Watching(made.clock, journal) for _ in made.slots]
        for slot, filler in zip(made.slots, watching, strict=True):
            slot.filler = filler
        before = len(journal.last(None, 100))
        made.tick(["held"] * CARDS)
        assert [filler.rows for filler in watching] == [before, before]
        assert len(journal.last(None, 100)) > before
        journal.close()


def test_rules_change_without_ending_what_runs() -> None:
    with machine(Wish((0,))) as made:
        (slot,) = made.slots
        for _ in range(5):
            made.tick(["idle"] * CARDS)
        running = slot.filler
        slot.spec = replace(slot.spec, presence_rules=PresenceRules(mind_users=False, between=THIS_MINUTE))
        made.fill_loop.change([slot])
        made.tick(["idle"] * CARDS)
        assert slot.filler is running
        made.clock.wall_offset_s += HOUR_S
        made.tick(["idle"] * CARDS)
        made.tick(["idle"] * CARDS)
        assert not slot.filled


def test_many_descriptors_do_not_keep_it_from_hearing(tmp_path: pathlib.Path) -> None:
    """A daemon with a thousand streams has descriptors that select(2) does not know."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    ours, its = os.pipe()
    try:
        with machine(Wish((0,))) as made:
            os.write(its, b"x")
            made.fill_loop.wait(made.clock.now_s + 3600.0, [ours])
    finally:
        for fd in (*taken, ours, its):
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
