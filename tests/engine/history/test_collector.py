"""Ticks become intervals: nothing that was witnessed is lost, nothing that was not is made up."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import NOBODY, SOMEBODY, Party
from fallow.core.owner import Owner, OwnerKind
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.history.collector import QUARTER_MS, Collector, Piece, crew_text, parties_of_text
from tests.engine.history.life import START_S, gpu_status, holder, life, status
from tests.length import examples

GAP_S = 3.0
QUIET = Unknown("the card does not answer")


class Stretch(NamedTuple):
    """Some ticks that are alike, after a pause."""

    activity: Activity
    user: str
    ticks: int
    pause_s: float


stretches = st.lists(
    st.builds(
        Stretch,
        st.sampled_from(list(Activity)),
        st.sampled_from(["ada", "bob"]),
        st.integers(1, 5) | st.integers(200, 600),
        st.sampled_from([0.0, 0.0, 1.0, 2.5, 10.0, 5000.0, -30.0]),
    ),
    max_size=10,
)


def ticks(history: Iterable[Stretch]) -> list[Status]:
    at_s, found = START_S, []
    for stretch in history:
        at_s += stretch.pause_s
        holders = () if stretch.activity is Activity.FREE else (holder(user=stretch.user),)
        gpu = gpu_status(0, stretch.activity, *holders)
        for _ in range(stretch.ticks):
            at_s += 1
            found.append(status(at_s, gpu))
    return found


def gathered(statuses: Iterable[Status], every: int = 4) -> list[Piece]:
    """The intervals in the end, from batches taken every so many ticks: the last of each number is what it became."""
    gatherer, pieces = Collector(GAP_S), {}
    for number, one in enumerate(statuses):
        gatherer.take(one)
        if number % every == 0:
            pieces.update((piece.number, piece) for piece in gatherer.batch().pieces)
    pieces.update((piece.number, piece) for piece in gatherer.batch().pieces)
    return list(pieces.values())


def witnessed_ms(statuses: list[Status]) -> dict[str, int]:
    """What a plain count finds: each tick speaks for the time since the one before, unless that is too long ago."""
    found: dict[str, int] = {}
    for before, after in itertools.pairwise(statuses):
        passed = round(after.wall_s * 1000) - round(before.wall_s * 1000)
        if 0 <= passed <= GAP_S * 1000:
            (gpu,) = after.gpus
            key = f"{gpu.activity} {crew_text(gpu)}"
            found[key] = found.get(key, 0) + passed
    return {key: ms for key, ms in found.items() if ms}


@settings(max_examples=examples(80), deadline=None)
@given(stretches, st.integers(1, 50))
def test_the_intervals_have_the_time_that_was_witnessed_and_no_more(history: list[Stretch], every: int) -> None:
    statuses = ticks(history)
    found: dict[str, int] = {}
    for piece in gathered(statuses, every):
        key = f"{piece.activity} {piece.crew}"
        found[key] = found.get(key, 0) + piece.end_ms - piece.begin_ms
    assert found == witnessed_ms(statuses)


@settings(max_examples=examples(60), deadline=None)
@given(stretches)
def test_intervals_lie_in_one_quarter_of_an_hour_and_no_neighbours_are_alike(history: list[Stretch]) -> None:
    pieces = gathered(ticks(history))
    for piece in pieces:
        assert 0 < piece.end_ms - piece.begin_ms <= QUARTER_MS
        assert piece.begin_ms // QUARTER_MS == (piece.end_ms - 1) // QUARTER_MS
    for before, after in itertools.pairwise(pieces):
        alike = (before.activity, before.crew, before.end_ms) == (after.activity, after.crew, after.begin_ms)
        assert not alike or after.begin_ms % QUARTER_MS == 0


def test_a_card_that_has_lost_its_uuid_is_still_the_same_card() -> None:
    well = gpu_status(0, Activity.FREE)
    lost: GpuStatus = replace(well, uuid=QUIET, name=QUIET, activity=Activity.UNKNOWN, holders=QUIET)
    pieces = gathered([status(START_S + at, well if at < 5 else lost) for at in range(10)])
    assert {piece.uuid for piece in pieces} == {well.uuid}
    assert [piece.activity for piece in pieces] == [Activity.FREE, Activity.UNKNOWN]


def test_who_holds_a_card_is_told_by_user_and_job() -> None:
    gpu = gpu_status(
        0,
        Activity.BUSY,
        holder(1, "ada", owner=Owner(OwnerKind.SLURM, "77", "77")),
        holder(2, "ada", owner=Owner(OwnerKind.SLURM, "77", "77")),
        holder(3, "bob", owner=Owner(OwnerKind.POD, "a-b", "a-b")),
        holder(4, "carol", owner=Owner(OwnerKind.CONTAINER, "0123456789abcdef")),
        holder(5, QUIET, QUIET),
        holder(6, "dan", "python  x.py\n--y"),
    )
    assert parties_of_text(crew_text(gpu)) == (
        Party("?", "?"),
        Party("ada", "slurm:77"),
        Party("bob", "pod:a-b"),
        Party("carol", "container:0123456789ab"),
        Party("dan", "python x.py --y"),
    )


def test_nobody_is_not_the_same_as_somebody_unseen() -> None:
    assert parties_of_text(crew_text(gpu_status(0, Activity.FREE))) == (NOBODY,)
    assert parties_of_text(crew_text(gpu_status(0, Activity.IDLE))) == (SOMEBODY,)
    assert parties_of_text(crew_text(replace(gpu_status(0, Activity.UNKNOWN), holders=QUIET))) == (SOMEBODY,)
    assert parties_of_text("rubbish") == (SOMEBODY,)


def test_a_crowd_on_one_card_is_told_in_few_words() -> None:
    crowd = [holder(pid, "ada", f"worker {pid}") for pid in range(500)]
    assert len(crew_text(gpu_status(0, Activity.BUSY, *crowd))) < 100
    same = [holder(pid, "ada", "worker") for pid in range(500)]
    assert parties_of_text(crew_text(gpu_status(0, Activity.BUSY, *same))) == (Party("ada", "worker"),)


def test_what_nobody_fetches_does_not_grow_for_ever() -> None:
    gatherer = Collector(GAP_S, most_waiting=100)
    statuses = list(life(0.005, restless=8))
    for one in statuses:
        gatherer.take(one)
    batch = gatherer.batch()
    assert len(batch.pieces) == 100 + 8
    assert max(piece.end_ms for piece in batch.pieces) == statuses[-1].wall_s * 1000, "the newest is kept"
