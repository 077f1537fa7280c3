"""The stressor of "GPU Sentinel": the lines of its document, what is behind them, and its loops as fillers."""

import math
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.compat.documents import blocks, commands, ours
from tests.conftest import Fallow
from tests.cuda_process import CudaProcess
from tests.interfaces.cli.filled import Fill, pids_written, wait_for_end, wait_for_lines
from tests.places import LIMIT_S, REPOSITORY
from tests.standin import Process, World

MIB = 2**20
(QUICK_START,) = blocks("gpu_stress", "bash")
WHILE_FREE, WHEN_SOMEBODY_COMES = (block.splitlines() for block in blocks("gpu_stress", ""))
LOOPS = blocks("gpu_stress", "python")
COMMAND = ours(commands(QUICK_START)[-1])


def in_form(line: str) -> re.Pattern[str]:
    """A line of the document, with any size and count."""
    pattern = re.escape(line).replace(re.escape("59.13"), r"(\d+\.\d\d)").replace("111", r"(\d+)")
    return re.compile(pattern)


@pytest.fixture
def stress(fallow: Fallow) -> Callable[..., Fill]:
    """Run it; its lines are on stdout."""
    return lambda **variables: Fill(fallow.start(*COMMAND.split()[1:], **variables), on_stdout=True)


@pytest.fixture
def cards(make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path) -> World:
    """Two cards with 1.5 GiB free each, and device nodes."""
    world = make_world(cards=2, memory_total=2000 * MIB)
    for card in world:
        card.memory_reserved, card.memory_used = 500 * MIB, 0
    fallow.environ.update(world.nodes(tmp_path / "dev"))
    return world


@pytest.fixture
def somebody(cards: World) -> Iterator[None]:
    """Who works on the second card."""
    process = subprocess.Popen(["sleep", "1000"])
    cards[1].compute = [Process(process.pid, 100 * MIB)]
    cards[1].memory_used = 100 * MIB
    yield
    process.kill()
    process.wait(LIMIT_S)


@pytest.fixture
def newcomer(fallow: Fallow) -> Iterator[Callable[[str], None]]:
    """Somebody who comes to a simulated GPU."""
    came: list[subprocess.Popen[bytes]] = []

    def come(gpu: str) -> None:
        came.append(subprocess.Popen(["sleep", "1000"], env=fallow.on(gpu)))

    yield come
    for process in came:
        process.kill()
        process.wait(LIMIT_S)


def held(world: World, card: int) -> int:
    return sum(world.cuda_memory(card).values())


def test_the_quick_start_needs_neither_torch_nor_an_environment_for_it() -> None:
    *before, last = commands(QUICK_START)
    assert [line.split()[0] for line in before] == ["python", "pip"], "the environment, and torch in it"
    assert ours(last) == "fallow compat gpu_stress"


@pytest.mark.more
@pytest.mark.usefixtures("somebody")
def test_its_lines_are_those_of_the_document_and_true(cards: World, stress: Callable[..., Fill]) -> None:
    running = stress()
    running.until("[GPU 0] Allocated")
    said = iter(running.said)
    of_the_first = [in_form(line) for line in WHILE_FREE if not line.startswith(("[GPU 1]", "..."))]
    found = [next((form.fullmatch(line) for line in said if form.fullmatch(line)), None) for form in of_the_first]
    assert None not in found, running.said
    assert [line for line in WHILE_FREE if line.startswith("[GPU 1]")] == running.told("[GPU 1] In use. ")
    (tried,), (taken, chunks) = (match.groups() for match in found[-2:] if match)
    assert math.isclose(float(tried), 0.88 * 1500 * MIB / 1e9, abs_tol=0.02)
    assert math.isclose(float(taken), float(tried), abs_tol=0.01)
    assert math.isclose(float(taken), held(cards, 0) / 1e9, abs_tol=0.01)
    assert int(chunks) - math.ceil(float(taken) * 1e9 / (512 * MIB)) in (0, 1), "what is computed is one more"


@pytest.mark.more
def test_it_leaves_when_another_job_starts_on_its_gpu_and_comes_back_when_that_has_gone(
    cards: World, fallow: Fallow, stress: Callable[..., Fill]
) -> None:
    running = stress()
    for _ in cards:
        running.until("Allocated")
    stressor = list(cards.cuda_memory(0))
    job = CudaProcess({**fallow.environ, "CUDA_VISIBLE_DEVICES": "0"})
    assert job("context()") == 0
    (line,) = WHEN_SOMEBODY_COMES
    assert running.until("[GPU 0] In use") == line
    assert f"[GPU 0] Because pid {job.pid} " in running.until("[GPU 0] Because")
    running.until("[GPU 0] Given back after")
    wait_for_end(stressor)
    assert job(f"take({1400 * MIB})") > 0, "it is there, and has the memory"
    assert held(cards, 1) > 1300 * MIB, "the other card goes on"
    job.kill()
    running.until("[GPU 0] Allocated")


@pytest.mark.more
def test_it_only_sees_gpus_in_the_current_environment(cards: World, stress: Callable[..., Fill]) -> None:
    running = stress(CUDA_VISIBLE_DEVICES="1")
    running.until("[GPU 1] Allocated")
    assert not running.told("[GPU 0]")
    assert held(cards, 0) == 0


@pytest.mark.more
def test_simulated_gpus_get_a_thousandth_in_as_many_chunks(
    fallow: Fallow, stress: Callable[..., Fill], newcomer: Callable[[str], None]
) -> None:
    fallow.environ["FALLOW_SIMULATE"] = "2xH100"
    running = stress()
    assert running.until("[GPU 1] Allocated") == "[GPU 1] Allocated 0.07 GB in 141 chunks"
    newcomer("1")
    assert running.until("[GPU 1] In use") == "[GPU 1] In use by other processes. Killing stressor."
    running.until("[GPU 1] Given back")


@pytest.mark.parametrize("loop", LOOPS, ids=["its own", "its example"])
@pytest.mark.more
def test_the_loops_of_the_document_run_as_fillers_and_leave(
    simulated: Fallow, newcomer: Callable[[str], None], tmp_path: pathlib.Path, loop: str
) -> None:
    program, pids = tmp_path / "loop.py", tmp_path / "pids"
    around = "import time, torch\ngpu_id = 0\nchunks = [torch.randn(8, device='cuda:0') for _ in range(3)]\n"
    program.write_text(around + loop)
    toy = {"PYTHONPATH": str(REPOSITORY / "tests" / "compat" / "toy"), "TOY_TORCH": str(pids)}
    words = ("--gpus", "0", "--idle-for", "1s", "--users", "ignore", "--", sys.executable, str(program))
    running = Fill(simulated.start("fill", *words, **toy))
    wait_for_lines(pids, 1)
    newcomer("0")
    running.until("GPU 0: giving it back")
    wait_for_end(pids_written(pids))
