"""The process lists of a card."""

import pynvml
import pytest

from tests.standin import Process, World

from .remote import Reader, count_and_answer

KINDS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_process_has_a_list_of_its_own(nvml: Reader, world: World, kind: str) -> None:
    setattr(world[2], kind, [Process(pid=123, memory_bytes=2**30), Process(pid=5)])
    handle = nvml.nvmlDeviceGetHandleByIndex(2)
    for other, name in KINDS.items():
        for version in ("_v2", "_v3"):
            found = getattr(nvml, f"nvmlDeviceGet{name}RunningProcesses{version}")(handle)
            expected = [(123, 2**30), (5, None)] if other == kind else []
            assert [(p.pid, p.usedGpuMemory) for p in found] == expected


def test_a_buffer_that_is_too_small_is_answered_with_the_size_needed(nvml: Reader, world: World) -> None:
    world[0].compute = [Process(pid=i + 1) for i in range(3)]
    assert nvml.run(count_and_answer, 2) == [pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 3]
    assert nvml.run(count_and_answer, 3) == [pynvml.NVML_SUCCESS, 3]
