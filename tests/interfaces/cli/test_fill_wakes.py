"""`fallow fill` on the stand-in driver, with device nodes that programs open: who makes it yield, who does not."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, pids_written, wait_for_end, wait_for_lines
from tests.places import LIMIT_S
from tests.standin import Process, World
from tests.waiting import end

# Opens the node so often as its first word says, keeps it open, and says so.
OPENER = "import sys\nkept = [open(sys.argv[2]) for _ in range(int(sys.argv[1]))]\nprint('open', flush=True)\ninput()"

# A program that begins CUDA and takes no memory yet; real ones take more than 100 ms to come to that.
BEGINNER = """
from cuda.bindings import driver
assert driver.cuInit(0)[0] == 0
print("begun", flush=True)
input()
"""


@pytest.fixture
def nodes(make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path) -> World:
    """4 idle cards with device nodes."""
    world = make_world(cards=4)
    fallow.environ.update(world.nodes(tmp_path / "dev"))
    return world


@pytest.fixture
def fill(nodes: World, fallow: Fallow) -> Callable[..., Fill]:
    """Start `fallow fill` with options and a command."""
    return lambda *words: Fill(fallow.start("fill", "--users", "ignore", *words))


@pytest.fixture
def program(fallow: Fallow) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a Python program, and wait until it has said its first word."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, name: str = sys.executable) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [name, *words],
            executable=sys.executable,
            env=fallow.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    yield start
    for process in started:
        end(process)


def node(fallow: Fallow, card: int = 0) -> str:
    return f"{fallow.environ['FALLOW_DEVICES']}/nvidia{card}"


def test_a_program_that_begins_cuda_is_noticed_before_the_driver_lists_it(
    fill: Callable[..., Fill], program: Callable[..., subprocess.Popen[str]]
) -> None:
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sleep", "1000")
    running.until("filling it")
    newcomer = program("-c", BEGINNER)
    said = running.until("giving it back")
    assert f"pid {newcomer.pid} of " in said
    assert "has opened" in said
    running.until("given back after")


def test_monitors_never_make_it_yield(
    fill: Callable[..., Fill], fallow: Fallow, program: Callable[..., subprocess.Popen[str]]
) -> None:
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sleep", "1000")
    running.until("filling it")
    for _ in range(10):
        program("-c", OPENER, "3", node(fallow))
    program("-c", OPENER, "20", node(fallow), name="/usr/bin/nv-hostengine")
    newcomer = program("-c", OPENER, "4", node(fallow))
    assert f"pid {newcomer.pid} of " in running.until("giving it back"), "the first who made it yield"


def test_eager_yields_to_any_opener_but_a_monitor(
    fill: Callable[..., Fill], fallow: Fallow, program: Callable[..., subprocess.Popen[str]]
) -> None:
    running = fill("--eager", "--gpus", "0", "--idle-for", "0", "--", "sleep", "1000")
    running.until("filling it")
    program("-c", OPENER, "3", node(fallow), name="nvidia-smi")
    newcomer = program("-c", OPENER, "1", node(fallow))
    assert f"pid {newcomer.pid} of " in running.until("giving it back")


def test_a_suspended_filler_goes_on_where_it_was(
    fill: Callable[..., Fill], nodes: World, tmp_path: pathlib.Path
) -> None:
    pids = tmp_path / "pids"
    work = f"""
from cuda.bindings import driver
driver.cuInit(0)
context = driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1]
driver.cuCtxSetCurrent(context)
assert driver.cuMemAlloc(2**30)[0] == 0
import os
open({str(pids)!r}, "a").write(f"{{os.getpid()}}\\n")
input()
"""
    script = f"echo $PPID >> {pids}; sleep 1000 | {sys.executable} -c '{work.replace(chr(39), chr(34))}'"
    running = fill("--gpus", "0", "--idle-for", "0", "--yield", "suspend", "--", "sh", "-c", script)
    wait_for_lines(pids, 2)
    keeper, pid = pids_written(pids)
    assert nodes.cuda_state(pid) == 0
    nodes[0].graphics = [Process(os.getpid(), 2**30)]
    assert running.until("GPU 0: given back after").endswith("it is suspended")
    assert nodes.cuda_state(pid) == 2
    nodes[0].graphics = []
    running.until("GPU 0: resuming the filler")
    nodes[0].graphics = [Process(os.getpid(), 2**30)]
    assert running.until("GPU 0: given back after").endswith("it is suspended"), "it had been running again"
    running.process.kill()
    running.process.wait(LIMIT_S)
    os.kill(pid, 0)  # suspended on purpose, it outlives even that
    os.kill(keeper, signal.SIGTERM)
    wait_for_end([pid])
