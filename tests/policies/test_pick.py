"""Who is given, who is refused, and that nothing unknown or promised is ever given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.gpu import Gpu, Holder, Memory
from fallow.core.reservations import Claim, Leaves, Note, Reservations, Waiter
from fallow.core.unknown import Unknown
from fallow.policies.pick import Choice, Order, Wanted, choose, refusal
from tests.core.gpus import GIB, held, idle

GONE = Unknown("the driver coughed")


def give(gpus: list[Gpu], links: dict[frozenset[str], int] | None = None, **wanted: Any) -> Choice:
    return choose(gpus, Wanted(**wanted), {}, links or {}, lambda: 0)


def indices(choice: Choice) -> list[int]:
    return [gpu.index for gpu in choice.gpus]


@st.composite
def cards(draw: st.DrawFn, index: int) -> Gpu:
    """Any card: idle, used, held, lost, or with readings missing."""
    used = draw(st.sampled_from([0, 10, 70])) * GIB
    holders = draw(st.sampled_from([(), (Holder(1, used),), (Holder(1, GONE),), GONE]))
    memory = draw(st.sampled_from([Memory(80 * GIB, used, 80 * GIB - used, 2**26), GONE]))
    return idle(
        index,
        utilization=draw(st.sampled_from([0.0, 0.3, 1.0, GONE])),
        memory_utilization=draw(st.sampled_from([0.0, 0.3, GONE])),
        holders=holders,
        memory=memory,
        temperature_c=draw(st.sampled_from([30, 60, GONE])),
        trouble=draw(st.sampled_from([None, None, "the GPU is lost"])),
        uuid=draw(st.sampled_from([f"GPU-{index}", f"GPU-{index}", GONE])),
    )


machines = st.integers(1, 8).flatmap(lambda count: st.tuples(*(cards(index) for index in range(count))))
claims = st.sampled_from([None, None, Claim(shared=False), Claim(shared=True)])
WAITER = Waiter("wait-1", 0.0, 0, Note(), frozenset())
promised = st.builds(Reservations, claim=claims, ahead=st.sampled_from((None, WAITER)), picked=st.booleans())
wishes = st.builds(
    Wanted,
    count=st.integers(1, 3),
    max_utilization=st.sampled_from([0.0, 0.5, 1.0]),
    max_processes=st.integers(0, 2),
    min_free_bytes=st.sampled_from([0, 20 * GIB]),
    order=st.sampled_from(Order),
    shared=st.booleans(),
)


@given(machines, wishes, st.lists(promised, min_size=8, max_size=8), st.integers(0, 2**32))
def test_what_is_given_is_known_fit_and_nobody_elses(
    machine: tuple[Gpu, ...], wanted: Wanted, promises: list[Reservations], seed: int
) -> None:
    of = {f"GPU-{index}": promise for index, promise in enumerate(promises)}
    choice = choose(machine, wanted, of, {}, lambda: seed)
    assert len(choice.gpus) in (0, wanted.count)
    for gpu in choice.gpus:
        promise = of[str(gpu.uuid)]
        assert gpu.trouble is None
        for reading in (gpu.uuid, gpu.utilization, gpu.holders, gpu.memory):
            assert not isinstance(reading, Unknown)
        assert not promise.ahead
        assert promise.claim is None or (wanted.shared and promise.claim.shared)
    fit = [gpu for gpu in machine if refusal(gpu, wanted, of.get(str(gpu.uuid), Reservations())) is None]
    assert bool(choice.gpus) == (len(fit) >= wanted.count), "given exactly when enough are fit"
    assert len(choice.refused) == len(machine) - len(fit), "each of the others is told why"


def test_best_prefers_free_memory_then_coolness() -> None:
    small = Memory(40 * GIB, 0, 40 * GIB, 2**26)
    gpus = [idle(0, memory=small, temperature_c=20), idle(1, temperature_c=70), idle(2, temperature_c=31)]
    assert indices(give(gpus)) == [2]
    assert indices(give(gpus[:2])) == [1]


def test_a_card_of_unknown_temperature_comes_after_those_that_are_known() -> None:
    assert indices(give([idle(0, temperature_c=GONE), idle(1, temperature_c=90)])) == [1]


def test_some_mebibytes_or_degrees_more_do_not_decide_but_chance_does() -> None:
    gpus = [idle(0, temperature_c=31), idle(1, temperature_c=33)]
    rolls = iter([5, 1])
    assert indices(choose(gpus, Wanted(), {}, {}, lambda: next(rolls))) == [1]


def link(gpus: list[Gpu], *pairs: tuple[int, int, int]) -> dict[frozenset[str], int]:
    return {frozenset((str(gpus[a].uuid), str(gpus[b].uuid))): near for a, b, near in pairs}


def test_several_are_the_group_whose_weakest_link_is_strongest() -> None:
    gpus = [idle(index) for index in range(6)]
    links = link(gpus, (0, 1, 100), (1, 2, 100), (0, 2, 10), (3, 4, 50), (4, 5, 50), (3, 5, 50))
    assert indices(give(gpus, links, count=3)) == [3, 4, 5]
    assert indices(give(gpus, links, count=2)) in ([0, 1], [1, 2])


def test_a_large_machine_is_searched_by_growing_groups() -> None:
    gpus = [idle(index) for index in range(32)]
    island = range(16, 24)
    links = {frozenset((str(gpus[a].uuid), str(gpus[b].uuid))): 100 for a in island for b in island if a < b}
    assert indices(give(gpus, links, count=8)) == list(island)


@pytest.mark.parametrize(
    ("gpu", "says"),
    [
        (held(), "held by pid 100"),
        (idle(trouble="the GPU is lost"), "lost"),
        (idle(utilization=0.2), "20%"),
        (idle(memory_utilization=0.1), "memory traffic 10%"),
        (
            idle(memory=Memory(80 * GIB, 9 * GIB, 71 * GIB, 2**26)),
            "9.0 GiB of its memory are held by no visible process",
        ),
        (idle(holders=GONE), "coughed"),
        (idle(memory=GONE), "coughed"),
        (idle(utilization=GONE), "coughed"),
    ],
)
def test_each_refusal_says_why(gpu: Gpu, says: str) -> None:
    assert says in str(refusal(gpu, Wanted(), Reservations()))


def test_those_who_share_do_not_count_each_others_processes() -> None:
    shared = Reservations(claim=Claim(shared=True))
    assert refusal(held(utilization=0.9), Wanted(shared=True), shared) is None
    assert refusal(held(), Wanted(shared=True), Reservations()) is not None, "nobody there said that they would share"
    assert refusal(held(), Wanted(), shared) is not None


@pytest.mark.parametrize(
    "readings",
    [
        *(("holders",), ("memory",), ("utilization",), ("memory_utilization",)),
        pytest.param(("recent", "counters"), id="only an instant is known"),
    ],
)
@pytest.mark.parametrize("promise", [Reservations(), Reservations(claim=Claim(shared=True))])
def test_what_is_not_known_is_refused_under_any_limit_and_to_those_who_share(
    readings: tuple[str, ...], promise: Reservations
) -> None:
    """F29"""
    lax = Wanted(max_utilization=1.0, max_memory_utilization=1.0, max_processes=9, shared=True)
    refused = refusal(held(**dict.fromkeys(readings, GONE)), lax, promise)
    assert refused is not None
    assert refused.kind == "reading_unknown"
    assert refusal(held(), lax, promise) is None


@given(
    machines,
    wishes,
    st.lists(st.builds(Reservations, picked=st.booleans(), leaves=st.sampled_from(Leaves)), min_size=8, max_size=8),
)
def test_nobody_has_to_leave_while_an_empty_card_fits(
    machine: tuple[Gpu, ...], wanted: Wanted, promises: list[Reservations]
) -> None:
    """F10"""
    of = {f"GPU-{index}": promise for index, promise in enumerate(promises)}
    given = choose(machine, wanted, of, {}, lambda: 0).gpus
    fit = [gpu for gpu in machine if refusal(gpu, wanted, of.get(str(gpu.uuid), Reservations())) is None]
    left = [of[str(gpu.uuid)] for gpu in fit if gpu not in given]
    for promise in (of[str(gpu.uuid)] for gpu in given):
        ranks = [(other.picked, other.leaves) for other in left]
        assert all((promise.picked, promise.leaves) <= rank for rank in ranks)
