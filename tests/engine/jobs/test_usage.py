"""What a job used is added up from the looks that could tell, and what no look told is unknown."""

from typing import Any

import pytest

from fallow.core.gpu import Gpu, Holder
from fallow.core.job import Job
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.engine.jobs.usage import UsageMeter, Used
from tests.core.gpus import GIB, NOT_SUPPORTED, held, idle
from tests.policies.histories import key, snapshot

PID = 100


def works(index: int = 0, memory_gib: int = 2, **changes: Any) -> Gpu:
    return held(index, holders=(Holder(PID, memory_gib * GIB, utilization=0.8),), **changes)


def used(*looks: tuple[Gpu, ...], hung_s: tuple[float, ...] = (), every_s: float = 1.0) -> Used:
    """What is added up from a look at the start and one each second."""
    keys = tuple(key(gpu.uuid) for gpu in looks[0])
    job = Job("job", "ada", {Process(PID, 1): "train"}, keys, frozenset({PID}))
    meter = UsageMeter([each.uuid for each in keys], 0.01, longest_gap_s=3.0)
    first, *later = looks
    meter.begin(snapshot(0.0, *first))
    for at, gpus in enumerate(later, start=1):
        meter.add(snapshot(at * every_s, *gpus), job, hung_s[at - 1] if hung_s else 0.0)
    return meter.used(60.0)


def test_the_share_is_of_the_time_of_all_its_gpus() -> None:
    both, one = (works(0), works(1)), (works(0), held(1))
    assert used(both, both, one).busy == 0.75


def test_time_that_no_look_could_judge_counts_neither_way() -> None:
    lost = (idle(trouble="the GPU is lost"),)
    assert used((works(),), (works(),), lost, (held(),)).busy == 0.5
    assert isinstance(used(lost, lost).busy, Unknown)


def test_a_gap_between_two_looks_counts_neither_way() -> None:
    assert isinstance(used((works(),), (works(),), every_s=10.0).busy, Unknown)


def test_a_job_that_ended_before_the_first_look_is_not_called_idle() -> None:
    found = used((idle(),))
    assert isinstance(found.busy, Unknown)
    assert isinstance(found.memory_bytes, Unknown)
    assert found.for_s == 60.0


def test_a_hang_is_not_busy_while_it_is_seen() -> None:
    look = (works(),)
    assert used(look, look, look, look, look, hung_s=(0.0, 1.0, 2.0, 2.0)).busy == 0.5


def test_the_most_memory_is_that_of_one_moment_on_all_its_gpus() -> None:
    found = used((idle(0), idle(1)), (works(0, 40), works(1, 2)), (works(0, 3), works(1, 30)))
    assert found.memory_bytes == 42 * GIB


@pytest.mark.parametrize(
    "holders",
    [NOT_SUPPORTED, (Holder(PID, NOT_SUPPORTED),), (Holder(7, GIB),)],
    ids=["holders not told", "memory not told by process", "none of its pids listed"],
)
def test_memory_that_is_not_told_is_unknown_and_never_zero(holders: Any) -> None:
    look = (held(holders=holders),)
    assert isinstance(used(look, look).memory_bytes, Unknown)


def test_energy_is_the_power_of_all_its_gpus_over_the_time_that_was_seen() -> None:
    look = works(0, power_w=600.0), works(1, power_w=300.0)
    assert used(look, look, look, every_s=2.0).energy_j == 3600.0


def test_energy_that_one_gpu_does_not_tell_is_unknown() -> None:
    look = works(0, power_w=600.0), works(1, power_w=NOT_SUPPORTED)
    assert isinstance(used(look, look).energy_j, Unknown)
