"""The stand-in libcuda keeps what the real one promises, in the same world that NVML shows."""

import os
import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.cuda_process import CudaProcess
from tests.standin import World

from .remote import Reader

MIB = 2**20
OUT_OF_MEMORY, NO_DEVICE, UNKNOWN, ILLEGAL_STATE = 2, 100, 999, 401
LOST = 15  # NVML's number
Start = Callable[..., CudaProcess]


@pytest.fixture
def start(world: World, library: pathlib.Path) -> Iterator[Start]:
    """CUDA processes in this world."""
    started: list[CudaProcess] = []

    def begin(**variables: str) -> CudaProcess:
        started.append(CudaProcess({**world.environ(library), **variables}))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


def listed(nvml: Reader, card: int = 0) -> dict[int, int]:
    return dict(nvml(f"listed(card({card}))"))


def used(nvml: Reader) -> int:
    return int(nvml("used(card(0))"))


def test_who_has_a_context_is_listed_with_its_memory(start: Start, nvml: Reader) -> None:
    before = used(nvml)
    process = start()
    assert process("code(driver.cuInit(0))") == 0
    assert listed(nvml) == {}
    assert process("context()") == 0
    place = process(f"take({100 * MIB})")
    assert listed(nvml) == {process.pid: 100 * MIB}
    assert used(nvml) == before + 100 * MIB
    assert process(f"code(driver.cuMemFree({place}))") == 0
    assert listed(nvml) == {process.pid: 0}
    assert process(f"code(driver.cuMemFree({place}))") == 1, "twice"


def test_memory_that_is_mapped_nowhere_counts_as_held_until_it_is_released(start: Start, nvml: Reader) -> None:
    process = start()
    assert process("context()") == 0
    handle = process(f"reserve({100 * MIB})")
    assert listed(nvml) == {process.pid: 100 * MIB}
    assert process(f"reserve({100 * MIB + 1})") == -1, "no whole pages"
    assert process(f"reserve({2**50})") == -OUT_OF_MEMORY
    assert process(f"code(driver.cuMemRelease({handle}))") == 0
    assert listed(nvml) == {process.pid: 0}


def test_who_is_killed_holds_nothing_any_more(start: Start, nvml: Reader) -> None:
    process = start()
    process("context()")
    process(f"take({100 * MIB})")
    process.kill()
    assert listed(nvml) == {}


def test_processes_share_the_memory_of_a_card(start: Start, world: World) -> None:
    world[0].memory_total = 1000 * MIB
    world[0].memory_reserved = world[0].memory_used = 0
    one, other = start(), start()
    assert (one("context()"), other("context()")) == (0, 0)
    assert one(f"take({600 * MIB})") > 0
    assert other("list(driver.cuMemGetInfo()[1:])") == [400 * MIB, 1000 * MIB]
    assert other(f"take({402 * MIB})") == -OUT_OF_MEMORY
    one.kill()
    assert other(f"take({402 * MIB})") > 0


def test_cuda_shows_the_cards_that_the_variable_names(start: Start, world: World, nvml: Reader) -> None:
    chosen = start(CUDA_VISIBLE_DEVICES=f"{world[3].uuid},1")
    assert chosen("context()") == 0
    assert list(listed(nvml, 3)) == [chosen.pid]
    for nothing in ("", "-1", "0,0"):
        assert start(CUDA_VISIBLE_DEVICES=nothing)("code(driver.cuInit(0))") == NO_DEVICE


def test_the_nodes_are_opened_as_real_cuda_opens_them(start: Start, world: World, tmp_path: pathlib.Path) -> None:
    process = start(**world.nodes(tmp_path / "dev"), CUDA_VISIBLE_DEVICES="0")

    def open_nodes() -> int:
        folder = f"/proc/{process.pid}/fd"
        return sum(os.readlink(f"{folder}/{fd}").endswith("/dev/nvidia0") for fd in os.listdir(folder))

    assert process("1") == 1
    assert open_nodes() == 0
    process("code(driver.cuInit(0))")
    assert open_nodes() == 5
    process("context()")
    assert 15 <= open_nodes() <= 20


def test_a_checkpoint_takes_the_memory_off_the_card_and_brings_it_back(
    start: Start, world: World, nvml: Reader
) -> None:
    filler, keeper = start(), start()
    filler("context()")
    filler(f"take({100 * MIB})")
    keeper("code(driver.cuInit(0))")

    def step(name: str) -> int:
        found: int = keeper(f"code(driver.cuCheckpointProcess{name}({filler.pid}, None))")
        return found

    assert step("Checkpoint") == ILLEGAL_STATE
    assert step("Lock") == 0
    filler.begin("code(driver.cuCtxSynchronize())")  # waits, as every call of a locked process does
    assert step("Checkpoint") == 0
    assert listed(nvml) == {}
    assert world.cuda_memory(0) == {}
    world[0].memory_used = world[0].memory_total - 50 * MIB - world[0].memory_reserved
    assert step("Restore") == OUT_OF_MEMORY
    world[0].memory_used = 0
    assert step("Restore") == 0
    assert listed(nvml) == {filler.pid: 100 * MIB}
    assert step("Unlock") == 0
    assert filler.answer() == 0


def test_faults_meet_the_calls_of_cuda_too(start: Start, world: World) -> None:
    process = start(CUDA_VISIBLE_DEVICES="0")
    process("context()")
    token = world.fault("cuMemAlloc", card=0, error=OUT_OF_MEMORY)
    assert process(f"take({MIB})") == -OUT_OF_MEMORY
    world.heal(token)
    assert process(f"take({MIB})") > 0
    world.fault("*", card=0, error=LOST)
    assert process(f"take({MIB})") == -UNKNOWN, "a card that is lost to NVML is lost to CUDA"


def test_an_older_driver_lacks_the_calls_that_came_later(start: Start, world: World) -> None:
    world.cuda_version = 12040
    process = start()
    assert process("driver.cuDriverGetVersion()[1]") == 12040
    assert "not found" in process(f"attempt('cuCheckpointProcessGetState', {process.pid})")
