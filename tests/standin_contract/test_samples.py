"""What happened lately on a card."""

import itertools
import time

import pynvml

from tests.standin import World

from . import raw
from .remote import Reader, code_of

GPU = pynvml.NVML_GPU_UTILIZATION_SAMPLES


def test_a_steady_card_shows_fourteen_seconds_of_its_current_load(nvml: Reader, world: World) -> None:
    world[0].utilization = 42
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    kind, samples = nvml.nvmlDeviceGetSamples(handle, GPU, 0)
    now = time.time_ns() // 1000
    times = [sample.timeStamp for sample in samples]
    assert kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    assert [sample.sampleValue for sample in samples] == [42] * 70
    assert {b - a for a, b in itertools.pairwise(times)} == {200_000}
    assert 0 <= now - times[-1] < 5_000_000


def test_asking_without_a_buffer_tells_how_much_room_is_needed(nvml: Reader, world: World) -> None:
    assert nvml.run(raw.samples, 0, GPU, 0, None) == [pynvml.NVML_SUCCESS, 72, []]
    world[0].samples = [(i + 1, 0) for i in range(128)]
    assert nvml.run(raw.samples, 0, GPU, 0, None) == [pynvml.NVML_SUCCESS, 128, []]


def test_only_samples_newer_than_the_last_seen_are_given(nvml: Reader, world: World) -> None:
    world[0].samples = [(1000, 1), (2000, 2), (3000, 3)]
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    _, samples = nvml.nvmlDeviceGetSamples(handle, GPU, 1000)
    assert [(s.timeStamp, s.sampleValue) for s in samples] == [(2000, 2), (3000, 3)]


def test_nothing_newer_is_not_found_and_leaves_the_count(nvml: Reader, world: World) -> None:
    world[0].samples = [(1000, 1)]
    assert nvml.run(raw.samples, 0, GPU, 1000, 72) == [pynvml.NVML_ERROR_NOT_FOUND, 72, []]
    world[0].samples = []
    assert nvml.run(raw.samples, 0, GPU, 0, 72) == [pynvml.NVML_ERROR_NOT_FOUND, 72, []]


def test_a_short_buffer_gets_the_oldest_samples(nvml: Reader, world: World) -> None:
    world[0].samples = [(1000, 1), (2000, 2), (3000, 3)]
    assert nvml.run(raw.samples, 0, GPU, 0, 2) == [pynvml.NVML_SUCCESS, 2, [1000, 2000]]
    assert nvml.run(raw.samples, 0, GPU, 0, 0)[0] == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_card_goes_back_to_steady(nvml: Reader, world: World) -> None:
    world[0].samples = [(1, 1)]
    assert world[0].samples == [(1, 1)]
    world[0].samples = None
    assert world[0].samples is None
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert len(nvml.nvmlDeviceGetSamples(handle, GPU, 0)[1]) == 70


def test_samples_of_an_unknown_kind_are_an_invalid_argument(nvml: Reader) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    answer = code_of(lambda: nvml.nvmlDeviceGetSamples(handle, 20, 0))
    assert answer == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_who_ran_since_a_moment_is_told(nvml: Reader, world: World) -> None:
    world[0].process_samples = [(11, 1000, 50, 20), (12, 2000, 30, 10, 3, 4)]
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    both = nvml.nvmlDeviceGetProcessUtilization(handle, 0)
    assert [(s.pid, s.smUtil, s.memUtil) for s in both] == [(11, 50, 20), (12, 30, 10)]
    later = nvml.nvmlDeviceGetProcessUtilization(handle, 1000)
    assert [(s.pid, s.timeStamp, s.encUtil, s.decUtil) for s in later] == [(12, 2000, 3, 4)]
    newer = nvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 1000)
    assert [(s.pid, s.smUtil) for s in newer] == [(12, 30)]


def test_nobody_ran_is_not_found(nvml: Reader, world: World) -> None:
    missing = pynvml.NVML_ERROR_NOT_FOUND
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert code_of(lambda: nvml.nvmlDeviceGetProcessUtilization(handle, 0)) == missing
    assert code_of(lambda: nvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 0)) == missing
    world[0].process_samples = [(11, 1000, 50, 20)]
    assert code_of(lambda: nvml.nvmlDeviceGetProcessUtilization(handle, 1000)) == missing


def test_too_little_room_for_process_samples_is_answered_with_the_driver_s_size(nvml: Reader, world: World) -> None:
    small = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert nvml.run(raw.process_utilization, 0, 0, 0) == [small, 72]
    world[0].process_samples = [(11, 1000, 50, 20)]
    assert nvml.run(raw.process_utilization, 0, 1, 0) == [small, 72]
    assert nvml.run(raw.process_utilization, 0, 72, 0) == [pynvml.NVML_SUCCESS, 1]
