"""Held is not busy, unknown is not idle, and an instant is not a while."""

import pytest

from fallow.core.activity import Activity, judge, load_now, unseen_memory_bytes
from fallow.core.gpu import Counters, Gpu, Holder, Memory, MigPlace, Recent
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.core.gpus import GIB, NOT_SUPPORTED, held, idle


def activity(gpu: Gpu) -> Activity:
    return judge(gpu).activity


def test_a_card_that_nobody_holds_is_free() -> None:
    assert activity(idle()) is Activity.FREE


def test_a_card_that_is_held_and_still_is_idle() -> None:
    assert activity(held()) is Activity.IDLE


def test_a_job_that_works_five_per_cent_of_each_second_is_busy_though_the_instant_reads_zero() -> None:
    assert activity(held(utilization=0.0, recent=Recent(14.0, 0.05, 0.24))) is Activity.BUSY


def test_work_of_one_process_is_work() -> None:
    quiet = held(recent=Unknown("no sample"))
    working = replace(quiet, holders=(Holder(1, GIB, utilization=0.02),))
    assert activity(working) is Activity.BUSY


def test_active_multiprocessors_are_work() -> None:
    counters = Counters(0.01, 0.0, 0.0, 0.0)
    assert activity(held(recent=Unknown("x"), counters=counters)) is Activity.BUSY


def test_an_instant_of_zero_alone_does_not_make_a_held_card_fallow() -> None:
    gone = Unknown("no sample")
    gpu = held(recent=gone, holders=(Holder(1, GIB, utilization=gone),))
    assert activity(gpu) is Activity.UNKNOWN


@pytest.mark.parametrize("field", ["holders", "memory", "utilization"])
def test_a_card_whose_emptiness_cannot_be_read_is_unknown(field: str) -> None:
    finding = judge(idle(**{field: Unknown("the driver coughed")}))
    assert finding.activity is Activity.UNKNOWN
    assert "the driver coughed" in finding.because


def test_a_card_in_trouble_is_unknown_whatever_its_numbers_say() -> None:
    assert activity(idle(trouble="the GPU is lost")) is Activity.UNKNOWN
    assert activity(held(utilization=1.0, trouble="the GPU is lost")) is Activity.UNKNOWN


def test_memory_that_nobody_visible_holds_is_held() -> None:
    gpu = idle(memory=Memory(80 * GIB, 3 * GIB, 77 * GIB, 64 * 2**20))
    assert activity(gpu) is Activity.IDLE
    assert unseen_memory_bytes(gpu) == 3 * GIB


def test_utilization_by_nobody_visible_is_busy() -> None:
    assert activity(idle(utilization=0.4)) is Activity.BUSY


def test_memory_of_a_holder_that_is_not_told_leaves_the_rest_unknown() -> None:
    gpu = held(holders=(Holder(1, Unknown("not told")),))
    assert isinstance(unseen_memory_bytes(gpu), Unknown)


def test_old_samples_of_a_card_that_everybody_left_are_an_echo() -> None:
    gpu = idle(recent=Recent(14.0, 0.9, 1.0))
    assert activity(gpu) is Activity.FREE
    assert load_now(gpu) == 0


def test_a_mig_instance_without_utilization_is_free_when_nobody_holds_it_and_unknown_when_somebody_does() -> None:
    place = MigPlace(0, "GPU-parent", 7)
    empty = idle(mig=place, utilization=NOT_SUPPORTED, memory_utilization=NOT_SUPPORTED, recent=NOT_SUPPORTED)
    assert activity(empty) is Activity.FREE
    taken = replace(empty, holders=(Holder(1, GIB, utilization=NOT_SUPPORTED),))
    assert activity(taken) is Activity.UNKNOWN
    assert isinstance(load_now(taken), Unknown)
    counted = replace(taken, counters=Counters(0.0, 0.0, 0.0, 0.0))
    assert activity(counted) is Activity.IDLE
