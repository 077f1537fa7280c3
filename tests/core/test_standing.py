"""A filler makes way, and a claim keeps others out: neither is what the card did."""

import pytest

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Gpu, Holder, Memory
from fallow.core.gpu_status import Status, seen
from fallow.core.interval import NOBODY, Party, parties_of
from fallow.core.reservations import Claim
from fallow.core.standing import Around, standing
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.core.gpus import GIB, held, idle
from tests.reasons import said

FILLER = Claim(False, pid=9, user="root", command="burn")
CLAIM = Claim(False, pid=7, user="ada", command="sleep")
FILLED = Around(fillers=frozenset({100}))


def activity(gpu: Gpu, around: Around) -> Activity:
    return standing(gpu, around).activity


@pytest.mark.parametrize("gpu", [held(), held(utilization=1.0), held(recent=Unknown("no sample"))])
def test_a_card_with_nothing_but_a_filler_is_filled_whatever_the_filler_does(gpu: Gpu) -> None:
    """F9"""
    assert activity(gpu, FILLED) is Activity.FILLED


@pytest.mark.parametrize(("gpu", "around"), [(idle(), Around()), (held(), FILLED)])
def test_a_card_whose_claim_cannot_be_read_is_not_to_be_had(gpu: Gpu, around: Around) -> None:
    assert activity(gpu, replace(around, claim=Unknown("no folder"))) is Activity.UNKNOWN


def test_a_child_of_the_filler_that_has_ended_since_is_nobody() -> None:
    """F9, F24"""
    both = held(memory_gib=2, holders=(Holder(100, GIB, utilization=1.0), Holder(101, GIB, utilization=0.0)))
    assert activity(both, replace(FILLED, gone=frozenset({101}))) is Activity.FILLED
    assert activity(held(), Around(gone=frozenset({100}))) is Activity.IDLE, "there is no filler"


def test_somebody_beside_a_filler_is_somebody() -> None:
    """F9"""
    both = held(utilization=1.0, holders=(Holder(100, GIB, utilization=0.5), Holder(5, GIB, utilization=0.5)))
    assert activity(both, FILLED) is Activity.BUSY
    status = seen(both, standing(both, FILLED), 1.0, None, filler=FILLER, filler_pids=(100,))
    assert [party.user for party in parties_of(status)] == ["?"], "the filler's time is nobody's"


def test_memory_that_the_filler_does_not_account_for_is_somebodys() -> None:
    """F9"""
    more = held(utilization=1.0, memory=Memory(80 * GIB, 9 * GIB, 71 * GIB, 64 * 2**20))
    assert activity(more, FILLED) is Activity.BUSY
    unseen = idle(memory=Memory(80 * GIB, 9 * GIB, 71 * GIB, 64 * 2**20))
    assert activity(unseen, FILLED) is Activity.IDLE


@pytest.mark.parametrize("field", ["holders", "memory"])
def test_a_card_that_cannot_be_read_is_never_filled(field: str) -> None:
    """F9"""
    assert activity(held(**{field: Unknown("the driver coughed")}), FILLED) is Activity.UNKNOWN
    assert activity(held(trouble="the GPU is lost"), FILLED) is Activity.UNKNOWN


def test_a_claim_that_nobody_uses_is_idleness_of_the_claimer() -> None:
    """V8"""
    finding = standing(idle(), Around(CLAIM))
    assert finding.activity is Activity.IDLE
    assert "ada" in finding.because
    assert parties_of(seen(idle(), finding, 60.0, CLAIM)) == (Party("ada", "sleep"),)


def test_a_claimed_card_is_not_to_be_had_while_its_filler_leaves() -> None:
    """F9, V8"""
    finding = standing(held(), replace(FILLED, claim=CLAIM))
    assert finding.activity is Activity.IDLE
    told = seen(held(), finding, 60.0, CLAIM, filler=FILLER, filler_pids=(100,))
    assert parties_of(told) == (Party("ada", "sleep"),)


def test_a_claim_whose_maker_is_not_known_is_somebodys() -> None:
    """V8"""
    nameless = Claim(False)
    assert parties_of(seen(idle(), standing(idle(), Around(nameless)), 60.0, nameless)) == (Party("?", "?"),)


def test_a_claim_that_works_is_judged_by_its_work() -> None:
    assert activity(held(utilization=1.0), Around(CLAIM)) is Activity.BUSY


def test_filled_time_is_nobodys() -> None:
    """F9"""
    assert parties_of(seen(held(), standing(held(), FILLED), 60.0, None, filler=FILLER, filler_pids=(100,))) == (
        NOBODY,
    )


def test_a_sight_says_first_how_many_can_be_had() -> None:
    """F9"""
    does = [Activity.FREE, Activity.FILLED, Activity.BUSY, Activity.FILLED, Activity.FILLED]
    status = Status(
        "box", False, 0.0, tuple(seen(idle(n), Finding(each, said("")), None, None) for n, each in enumerate(does))
    )
    assert status.in_words == "4 available (1 free, 3 filled), 1 busy"
    assert status.available == 4
    busy = replace(status, gpus=status.gpus[2:3])
    assert busy.in_words == "none available, 1 busy"
