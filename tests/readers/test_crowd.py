"""Where many processes take turns on a GPU, the driver names a few of them at a time: who is missing may have run."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.conftest import Fallow
from tests.standin import Process, World

MIB = 2**20
JOB, FIRST_NEIGHBOUR = 5_000_001, 5_000_002  # no process of this machine has these numbers
AT_ONCE = 3
LOOKS = f"""
import sys
from fallow.core.job import GpuKey, job_activity
from fallow.core.ports import Depth
from fallow.engine.machine.clock import SystemClock
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc

reader = NvmlReader("driven", SystemClock(), Proc(), 2.0)
for line in sys.stdin:
    snapshot = reader.look(Depth.METERED)
    gpu = snapshot.gpus[0]
    print(job_activity(snapshot, [GpuKey(snapshot.host, gpu.uuid)], frozenset(({JOB},))).activity, flush=True)
"""
Look = Callable[[Sequence[int]], str]


@pytest.fixture
def look(make_world: Callable[..., World], fallow: Fallow) -> Iterator[Callable[[int], Look]]:
    """Put the job and so many neighbours on a busy card; what the job did when the driver names these processes."""
    world = make_world(1)
    world[0].gpm = None
    world[0].utilization = 100
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env=fallow.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        times = iter(range(10**6, 10**9, 1000))

        def one(named: Sequence[int]) -> str:
            world[0].process_samples = [(pid, next(times), 30, 0) for pid in named]
            assert reader.stdin is not None
            assert reader.stdout is not None
            print(file=reader.stdin, flush=True)
            return reader.stdout.readline().strip()

        def begin(neighbours: int) -> Look:
            pids = [JOB, *range(FIRST_NEIGHBOUR, FIRST_NEIGHBOUR + neighbours)]
            world[0].compute = [Process(pid, MIB) for pid in pids]
            return one

        yield begin


def turns(neighbours: int, looks: int) -> list[list[int]]:
    """Who is named at each look, if the neighbours take turns."""
    line = [FIRST_NEIGHBOUR + number % neighbours for number in range(looks * AT_ONCE)]
    return [line[at : at + AT_ONCE] for at in range(0, len(line), AT_ONCE)]


def test_a_job_that_is_named_now_and_then_among_many_is_never_idle(look: Callable[[int], Look]) -> None:
    see = look(24)
    for _ in range(3):
        assert see([JOB]) == "busy"
        assert {see(named) for named in turns(24, 40)} == {"busy"}


def test_a_job_that_is_not_named_among_very_many_turns_of_others_is_idle(look: Callable[[int], Look]) -> None:
    see = look(6)
    said = [see(named) for named in turns(6, 40)][1:]  # at the first look fewer than a crowd were named
    assert (said[5], said[-1]) == ("busy", "idle")
    assert said.count("busy") == said.index("idle"), "and it stays so"


def test_beside_one_neighbour_that_works_an_idle_job_is_idle_at_once(look: Callable[[int], Look]) -> None:
    see = look(1)
    assert {see([FIRST_NEIGHBOUR]) for _ in range(5)} == {"idle"}


def test_once_the_crowd_has_gone_an_idle_job_is_idle(look: Callable[[int], Look]) -> None:
    see = look(24)
    assert see([JOB]) == "busy"
    assert {see(named) for named in turns(24, 10)} == {"busy"}
    look(1)
    assert [see([FIRST_NEIGHBOUR]) for _ in range(40)][-1] == "idle"
