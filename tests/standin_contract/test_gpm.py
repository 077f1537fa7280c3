"""Performance metrics between two samples."""

import math

import pynvml

from tests.standin import World

from . import raw
from .remote import Reader, code_of


def test_metrics_are_those_of_the_card(nvml: Reader, world: World) -> None:
    world[1].gpm = {2: 96.0, 3: 14.0, 5: 94.5, 10: 16.0}
    assert nvml.run(raw.metrics, 1, [2, 3, 5, 10]) == [
        pynvml.NVML_SUCCESS,
        [[2, 0, 96.0], [3, 0, 14.0], [5, 0, 94.5], [10, 0, 16.0]],
    ]


def test_an_idle_card_has_metrics_of_zero(nvml: Reader) -> None:
    assert nvml.run(raw.metrics, 0, [1, 2, 20, 21])[1] == [
        [1, 0, 0.0],
        [2, 0, 0.0],
        [20, 0, 0.0],
        [21, 0, 0.0],
    ]


def test_each_metric_has_an_answer_of_its_own(nvml: Reader, world: World) -> None:
    world[0].gpm = {2: 50.0, 3: math.nan}
    answer, metrics = nvml.run(raw.metrics, 0, [2, 3, 10, 0, 400])
    assert answer == pynvml.NVML_SUCCESS
    assert [code for _, code, _ in metrics] == [
        pynvml.NVML_SUCCESS,
        pynvml.NVML_SUCCESS,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
    ]
    assert metrics[0][2] == 50.0
    assert math.isnan(metrics[1][2])


def test_a_card_without_metrics_says_so(nvml: Reader, world: World) -> None:
    world[0].gpm = None
    assert world[0].gpm is None
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 0
    sample = nvml.nvmlGpmSampleAlloc()
    answer = code_of(lambda: nvml.nvmlGpmSampleGet(handle, sample))
    assert answer == pynvml.NVML_ERROR_NOT_SUPPORTED
    nvml.nvmlGpmSampleFree(sample)


def test_one_sample_is_not_enough(nvml: Reader) -> None:
    assert nvml.run(raw.one_sample_twice, 0) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_asking_for_nothing_or_in_another_version_is_refused(nvml: Reader) -> None:
    assert nvml.run(raw.metrics, 0, [])[0] == pynvml.NVML_ERROR_INVALID_ARGUMENT
    wrong = nvml.run(raw.metrics, 0, [2], None, 2)
    assert wrong[0] == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_metrics_of_an_instance_need_an_instance(nvml: Reader) -> None:
    answer = code_of(lambda: nvml.run(raw.metrics, 0, [2], 1))
    assert answer == pynvml.NVML_ERROR_INVALID_ARGUMENT
