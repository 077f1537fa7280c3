"""Simulated GPUs are held by real processes."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from fallow.core.activity import Activity, judge
from fallow.core.errors import WrongUsage
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.readers.proc import Proc
from fallow.readers.simulated_reader import SimulatedReader, machine
from tests.conftest import Fallow
from tests.harness import ManualClock
from tests.places import LIMIT_S
from tests.waiting import end

WORKS = "import sys; print('up', flush=True)\nwhile True: pass"
SLEEPS = "import sys; print('up', flush=True); sys.stdin.read()"
WORKS_A_LITTLE = """
import time
print('up', flush=True)
while True:
    began = time.process_time()
    while time.process_time() < began + 0.06: pass
    time.sleep(0.94)
"""
WAKES_NOW_AND_THEN = """
import time
print('up', flush=True)
while True: time.sleep(0.05)
"""
Start = Callable[..., int]


class SecondsOfWork(ManualClock):
    """Driven time, in which a wait lasts until each of these has had its share of a CPU that may be busy."""

    def __init__(self, *pids: int) -> None:
        super().__init__()
        self._pids = pids

    def sleep(self, seconds: float) -> None:
        before, by_s = self._ticks(), time.monotonic() + LIMIT_S
        while any(now < then + 5 for now, then in zip(self._ticks(), before, strict=True)):
            assert time.monotonic() < by_s, "somebody got no CPU at all"
            time.sleep(0.01)
        super().sleep(seconds)

    def _ticks(self) -> list[int]:
        stats = [Proc().stat(pid) for pid in self._pids]
        return [0 if stat is None else stat.cpu_ticks for stat in stats]


@pytest.fixture
def gpu_reader(simulated: Fallow) -> SimulatedReader:
    return SimulatedReader("here", SystemClock(), Proc(), simulated.environ)


@pytest.fixture
def start(simulated: Fallow) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(program: str, devices: str, **variables: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**simulated.on(devices), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process.pid

    yield begin
    for process in started:
        end(process)


def test_a_machine_is_named_by_counts_and_models() -> None:
    assert [name for name, _ in machine("1xA100,2xT4")] == ["NVIDIA A100-SXM4-80GB", "Tesla T4", "Tesla T4"]
    assert len(machine("4")) == 4
    assert len(machine("h200")) == 1


@pytest.mark.parametrize("spec", ["", "8xBANANA", "0xH100", "00xH100", "600xH100", "x", "4x"])
def test_a_machine_that_cannot_be_is_refused_with_those_that_can(spec: str) -> None:
    with pytest.raises(WrongUsage, match="write 8xH100"):
        machine(spec)


def test_cards_that_nobody_was_given_are_free(gpu_reader: SimulatedReader) -> None:
    snapshot = gpu_reader.look(Depth.ALL)
    assert snapshot.simulated
    assert {judge(gpu).activity for gpu in snapshot.gpus} == {Activity.FREE}


def test_a_process_that_was_given_a_card_holds_it_and_its_cpu_is_the_cards_load(
    simulated: Fallow, start: Start
) -> None:
    busy, quiet, little = start(WORKS, "0"), start(SLEEPS, "1"), start(WORKS_A_LITTLE, "2")
    gpu_reader = SimulatedReader("here", SecondsOfWork(busy, little), Proc(), simulated.environ)
    snapshot = gpu_reader.look(Depth.ALL)
    pids = [[holder.pid for holder in gpu.holders] for gpu in snapshot.gpus if not isinstance(gpu.holders, Unknown)]
    assert pids == [[busy], [quiet], [little], []]
    activities = [judge(gpu).activity for gpu in snapshot.gpus]
    assert activities == [Activity.BUSY, Activity.IDLE, Activity.BUSY, Activity.FREE]


def test_a_second_look_right_after_the_first_tells_the_same(simulated: Fallow, start: Start) -> None:
    busy, quiet = start(WORKS, "0"), start(SLEEPS, "1")
    clock = SecondsOfWork(busy)
    gpu_reader = SimulatedReader("here", clock, Proc(), simulated.environ)
    first = gpu_reader.look(Depth.ALL)
    ManualClock.sleep(clock, 0.01)
    again = gpu_reader.look(Depth.ALL)
    assert [gpu.utilization for gpu in again.gpus] == [gpu.utilization for gpu in first.gpus]
    assert [judge(gpu).activity for gpu in again.gpus][:2] == [Activity.BUSY, Activity.IDLE], quiet


@pytest.mark.more
def test_a_job_that_works_is_as_busy_where_others_leave_it_a_quarter_of_a_core(
    simulated: Fallow, start: Start
) -> None:
    busy, quiet = start(WORKS, "0"), start(WAKES_NOW_AND_THEN, "1")
    others = [start(WORKS, "2") for _ in range(3)]
    [core, *_] = os.sched_getaffinity(0)
    for pid in (busy, quiet, *others):
        os.sched_setaffinity(pid, {core})
    snapshot = SimulatedReader("here", SystemClock(), Proc(), simulated.environ).look(Depth.ALL)
    of_busy, of_quiet = (gpu.utilization for gpu in snapshot.gpus[:2])
    assert not isinstance(of_busy, Unknown)
    assert not isinstance(of_quiet, Unknown)
    assert of_busy > 0.5  # a quarter, if the time it waited for the core were not counted
    assert of_quiet < 0.2


def test_a_card_is_held_by_uuid_too_and_several_by_one(gpu_reader: SimulatedReader, start: Start) -> None:
    uuids = [gpu.uuid for gpu in gpu_reader.look(Depth.HOLDERS).gpus]
    pid = start(SLEEPS, f"{uuids[2]},{uuids[3]}")
    held = [gpu.index for gpu in gpu_reader.look(Depth.HOLDERS).gpus if gpu.holders]
    assert held == [2, 3]
    described = gpu_reader.describe(gpu_reader.look(Depth.HOLDERS)).gpus[2].holders
    assert not isinstance(described, Unknown)
    assert described[0].pid == pid
    assert "sys.stdin.read" in str(described[0].command)


def test_its_memory_is_their_resident_memory(gpu_reader: SimulatedReader, start: Start) -> None:
    start("x = b'x' * 80_000_000; print('up', flush=True); input()", "3")
    memory = gpu_reader.look(Depth.HOLDERS).gpus[3].memory
    assert not isinstance(memory, Unknown)
    assert 80_000_000 <= memory.used_bytes <= 200_000_000
    assert memory.free_bytes == memory.total_bytes - memory.used_bytes


def test_whoever_looks_does_not_hold_what_it_looks_at(simulated: Fallow) -> None:
    mine = subprocess.run(
        ["sh", "-c", "fallow pick; exit $?"],
        env={**simulated.environ, "CUDA_VISIBLE_DEVICES": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert mine.stdout == "0\n", mine.stderr


@pytest.mark.parametrize(
    "elsewhere",
    [{"FALLOW_SIMULATE": ""}, {"FALLOW_SIMULATE": "2xT4"}, {"FALLOW_SIMULATE": "?"}, {"FALLOW_CLAIM_DIR": "/other"}],
    ids=["on real GPUs", "on another machine", "on no machine", "with other claims"],
)
def test_a_process_that_is_not_on_this_simulated_machine_holds_nothing_of_it(
    gpu_reader: SimulatedReader, start: Start, elsewhere: dict[str, str]
) -> None:
    """F17"""
    start(SLEEPS, "0", **elsewhere)
    here = start(SLEEPS, "1", FALLOW_SIMULATE="4")  # the same cards in other words
    holders = [gpu.holders for gpu in gpu_reader.look(Depth.HOLDERS).gpus]
    assert [[holder.pid for holder in seen] for seen in holders if not isinstance(seen, Unknown)] == [
        [],
        [here],
        [],
        [],
    ]
