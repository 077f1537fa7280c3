"""The process lists of a card."""

import pytest

from tests.standin import Process, World

from .remote import INSUFFICIENT_SIZE, OK, Reader

KINDS = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_process_has_a_list_of_its_own(nvml: Reader, world: World, kind: str) -> None:
    setattr(world[2], kind, [Process(pid=123, memory_bytes=2**30), Process(pid=5)])
    found = {other: nvml(f"listed(card(2), {name!r})") for other, name in KINDS.items()}
    assert found == {other: [[123, 2**30], [5, None]] if other == kind else [] for other in KINDS}


def test_a_buffer_that_is_too_small_is_answered_with_the_size_needed(nvml: Reader, world: World) -> None:
    world[0].compute = [Process(pid=i + 1) for i in range(3)]
    assert nvml("into(2)") == [INSUFFICIENT_SIZE, 3]
    assert nvml("into(3)") == [OK, 3]
