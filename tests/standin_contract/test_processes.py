"""The process lists of a card."""

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.standin import Process, World

from . import raw
from .remote import Reader

KINDS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_process_has_a_list_of_its_own(nvml: Reader, world: World, kind: str) -> None:
    setattr(world[2], kind, [Process(pid=123, memory_bytes=2**30), Process(pid=5)])
    handle = nvml.nvmlDeviceGetHandleByIndex(2)
    for other, name in KINDS.items():
        for version in ("", "_v2", "_v3"):
            found = getattr(nvml, f"nvmlDeviceGet{name}RunningProcesses{version}")(handle)
            expected = [(123, 2**30), (5, None)] if other == kind else []
            assert [(p.pid, p.usedGpuMemory) for p in found] == expected


def test_a_process_of_a_whole_card_is_in_no_instance(nvml: Reader, world: World) -> None:
    world[0].compute = [Process(pid=1, memory_bytes=1)]
    found = nvml.nvmlDeviceGetComputeRunningProcesses(nvml.nvmlDeviceGetHandleByIndex(0))
    assert (found[0].gpuInstanceId, found[0].computeInstanceId) == (0xFFFFFFFF, 0xFFFFFFFF)


def test_the_oldest_call_fills_the_shorter_struct(nvml: Reader, world: World) -> None:
    world[0].compute = [Process(pid=7, memory_bytes=70), Process(pid=8, memory_bytes=80)]
    assert nvml.run(raw.old_process_list, 0) == [[7, 70], [8, 80]]


def test_no_process_needs_no_buffer(nvml: Reader) -> None:
    answer = nvml.run(raw.process_list, "nvmlDeviceGetComputeRunningProcesses_v3", 0, 0)
    assert answer == [pynvml.NVML_SUCCESS, 0, []]


def test_a_buffer_that_is_too_small_is_answered_with_the_size_needed(nvml: Reader, world: World) -> None:
    world[0].compute = [Process(pid=i + 1) for i in range(3)]
    answer = nvml.run(raw.process_list, "nvmlDeviceGetComputeRunningProcesses_v3", 0, 2)
    assert answer[:2] == [pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 3]


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(running=st.integers(0, 64), room=st.integers(0, 80))
def test_a_list_is_given_whole_or_not_at_all(nvml: Reader, world: World, running: int, room: int) -> None:
    world[0].compute = [Process(pid=i + 1) for i in range(running)]
    answer, count, pids = nvml.run(raw.process_list, "nvmlDeviceGetComputeRunningProcesses_v3", 0, room)
    assert count == running
    if running <= room:
        assert answer == pynvml.NVML_SUCCESS
        assert pids == list(range(1, running + 1))
    else:
        assert answer == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
        assert set(pids) <= {0}


def test_processes_are_listed_in_detail_too(nvml: Reader, world: World) -> None:
    world[0].compute = [Process(pid=9, memory_bytes=90)]
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    version, mode = pynvml.nvmlProcessDetailList_v1, pynvml.NVML_PROCESS_MODE_COMPUTE
    found = nvml.nvmlDeviceGetRunningProcessDetailList(handle, version, mode)
    assert [(p.pid, p.usedGpuMemory) for p in found] == [(9, 90)]


def test_a_card_remembers_what_it_was_given(world: World) -> None:
    given_list = [Process(pid=1, memory_bytes=2, gpu_instance=3, compute_instance=4), Process(5)]
    world[1].compute = given_list
    assert world[1].compute == given_list
    with pytest.raises(ValueError, match="at most 64"):
        world[1].compute = [Process(pid=1)] * 65
