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


SEVERAL = held(holders=(Holder(100, GIB, utilization=0.5), Holder(5, GIB, utilization=0.5)), utilization=1.0)
WITH_CHILD = held(holders=(Holder(100, GIB, utilization=1.0), Holder(101, GIB, utilization=0.0)))
MUCH = Memory(80 * GIB, 9 * GIB, 71 * GIB, 64 * 2**20)
COUGH = Unknown("the driver coughed")
NO_FOLDER = Unknown("no folder")


@pytest.mark.parametrize(
    ("gpu", "around", "activity"),
    [
        pytest.param(held(), FILLED, Activity.FILLED, id="nothing but a filler"),
        pytest.param(held(utilization=1.0), FILLED, Activity.FILLED, id="nothing but a filler that works"),
        pytest.param(held(recent=COUGH), FILLED, Activity.FILLED, id="nothing but a filler, without a sample"),
        pytest.param(WITH_CHILD, replace(FILLED, gone=frozenset({101})), Activity.FILLED, id="its child has ended"),
        pytest.param(
            held(), Around(gone=frozenset({100})), Activity.IDLE, id="one has ended, and there is no filler"
        ),
        pytest.param(SEVERAL, FILLED, Activity.BUSY, id="somebody beside a filler"),
        pytest.param(held(utilization=1.0, memory=MUCH), FILLED, Activity.BUSY, id="memory that is not the filler's"),
        pytest.param(idle(memory=MUCH), FILLED, Activity.IDLE, id="memory that is not the filler's, and no work"),
        pytest.param(held(holders=COUGH), FILLED, Activity.UNKNOWN, id="whether there is more than a filler"),
        pytest.param(held(memory=COUGH), FILLED, Activity.UNKNOWN, id="how much there is beside a filler"),
        pytest.param(held(trouble="it is lost"), FILLED, Activity.UNKNOWN, id="a lost card with a filler"),
        pytest.param(idle(), Around(claim=NO_FOLDER), Activity.UNKNOWN, id="a claim that cannot be read"),
        pytest.param(held(), replace(FILLED, claim=NO_FOLDER), Activity.UNKNOWN, id="a filler, and such a claim"),
        pytest.param(held(utilization=1.0), Around(CLAIM), Activity.BUSY, id="a claim that works"),
        pytest.param(held(), replace(FILLED, claim=CLAIM), Activity.IDLE, id="a claim while the filler leaves"),
    ],
)
def test_a_filler_makes_way_and_a_claim_keeps_others_out(gpu: Gpu, around: Around, activity: Activity) -> None:
    """F9, F24"""
    assert standing(gpu, around).activity is activity


NAMELESS = Claim(False)


@pytest.mark.parametrize(
    ("gpu", "around", "party"),
    [
        pytest.param(idle(), Around(CLAIM), Party("ada", "sleep"), id="a claim that nobody uses"),
        pytest.param(idle(), Around(NAMELESS), Party("?", "?"), id="a claim whose maker is not known"),
        pytest.param(
            held(), replace(FILLED, claim=CLAIM), Party("ada", "sleep"), id="a claim while the filler leaves"
        ),
        pytest.param(held(), FILLED, NOBODY, id="the time of a filler"),
    ],
)
def test_the_time_of_a_claim_is_its_makers_and_that_of_a_filler_nobodys(
    gpu: Gpu, around: Around, party: Party
) -> None:
    """F9, V8"""
    filler = {"filler": FILLER, "filler_pids": (100,)} if around.fillers else {}
    finding = standing(gpu, around)
    assert parties_of(seen(gpu, finding, 60.0, around.claim, **filler)) == (party,)  # type: ignore[arg-type]
    assert around.claim is not CLAIM or "ada" in finding.because


def test_beside_a_filler_the_time_is_that_of_the_others() -> None:
    """F9"""
    status = seen(SEVERAL, standing(SEVERAL, FILLED), 1.0, None, filler=FILLER, filler_pids=(100,))
    assert [party.user for party in parties_of(status)] == ["?"]


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
