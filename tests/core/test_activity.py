"""Held is not busy, unknown is not idle, and an instant is not a while."""

import pytest

from fallow.core.activity import Activity, judge, load_now, unseen_memory_bytes
from fallow.core.gpu import Counters, Gpu, Holder, Memory, MigPlace, Recent
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.core.gpus import GIB, NOT_SUPPORTED, held, idle

GONE = Unknown("no sample")
LEFT = idle(recent=Recent(14.0, 0.9, 1.0))
UNSEEN = idle(memory=Memory(80 * GIB, 3 * GIB, 77 * GIB, 64 * 2**20))
INSTANCE = idle(
    mig=MigPlace(0, "GPU-parent", 7),
    utilization=NOT_SUPPORTED,
    memory_utilization=NOT_SUPPORTED,
    recent=NOT_SUPPORTED,
)
TAKEN = replace(INSTANCE, holders=(Holder(1, GIB, utilization=NOT_SUPPORTED),))


@pytest.mark.parametrize(
    ("gpu", "activity"),
    [
        pytest.param(idle(), Activity.FREE, id="nobody holds it"),
        pytest.param(held(), Activity.IDLE, id="it is held and still"),
        pytest.param(held(recent=Recent(14.0, 0.05, 0.24)), Activity.BUSY, id="it worked, and the instant reads 0"),
        pytest.param(held(recent=GONE, holders=(Holder(1, GIB, utilization=0.02),)), Activity.BUSY, id="one worked"),
        pytest.param(
            held(recent=GONE, counters=Counters(0.01, 0.0, 0.0, 0.0)), Activity.BUSY, id="its SMs are active"
        ),
        pytest.param(
            held(recent=GONE, holders=(Holder(1, GIB, utilization=GONE),)), Activity.UNKNOWN, id="an instant"
        ),
        pytest.param(idle(trouble="the GPU is lost"), Activity.UNKNOWN, id="it is lost"),
        pytest.param(
            held(utilization=1.0, trouble="the GPU is lost"), Activity.UNKNOWN, id="it is lost, with numbers"
        ),
        pytest.param(UNSEEN, Activity.IDLE, id="nobody who can be seen holds its memory"),
        pytest.param(idle(utilization=0.4), Activity.BUSY, id="nobody who can be seen works"),
        pytest.param(LEFT, Activity.FREE, id="all have left, and old samples are an echo"),
        pytest.param(INSTANCE, Activity.FREE, id="a MIG instance that nobody holds"),
        pytest.param(TAKEN, Activity.UNKNOWN, id="a MIG instance without a utilization that somebody holds"),
        pytest.param(
            replace(TAKEN, counters=Counters(0.0, 0.0, 0.0, 0.0)), Activity.IDLE, id="a MIG instance at rest"
        ),
    ],
)
def test_a_gpu_is_what_its_readings_say(gpu: Gpu, activity: Activity) -> None:
    assert judge(gpu).activity is activity


@pytest.mark.parametrize("field", ["holders", "memory", "utilization"])
def test_a_card_whose_emptiness_cannot_be_read_is_unknown(field: str) -> None:
    finding = judge(idle(**{field: Unknown("the driver coughed")}))
    assert finding.activity is Activity.UNKNOWN
    assert "the driver coughed" in finding.because


def test_memory_of_a_holder_that_is_not_told_leaves_the_rest_unknown() -> None:
    assert unseen_memory_bytes(UNSEEN) == 3 * GIB
    assert isinstance(unseen_memory_bytes(held(holders=(Holder(1, Unknown("not told")),))), Unknown)


def test_the_load_now_is_that_of_the_instant_where_all_have_left_and_unknown_where_nothing_tells_it() -> None:
    assert load_now(LEFT) == 0
    assert isinstance(load_now(TAKEN), Unknown)
