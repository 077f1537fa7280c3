"""Simulated GPUs are held by real processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from fallow.core.activity import Activity, judge
from fallow.core.errors import WrongUsage
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.clock import SystemClock
from fallow.readers.proc import Proc
from fallow.readers.simulated import SimulatedEyes, machine
from tests.conftest import Fallow

WORKS = "import sys; print('up', flush=True)\nwhile True: pass"
SLEEPS = "import sys; print('up', flush=True); sys.stdin.read()"
WORKS_A_LITTLE = """
import time
print('up', flush=True)
while True:
    began = time.monotonic()
    while time.monotonic() < began + 0.06: pass
    time.sleep(0.94)
"""


Start = Callable[[str, str], int]


@pytest.fixture
def eyes() -> SimulatedEyes:
    return SimulatedEyes("here", SystemClock(), Proc(), machine("4xH100"))


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(program: str, devices: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": devices},
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
        process.kill()
        process.communicate()


def test_a_machine_is_named_by_counts_and_models() -> None:
    assert [card.name for card in machine("1xA100,2xT4")] == ["NVIDIA A100-SXM4-80GB", "Tesla T4", "Tesla T4"]
    assert len(machine("4")) == 4
    assert len(machine("h200")) == 1


@pytest.mark.parametrize("spec", ["", "8xBANANA", "0xH100", "00xH100", "99xH100", "x", "4x"])
def test_a_machine_that_cannot_be_is_refused_with_those_that_can(spec: str) -> None:
    with pytest.raises(WrongUsage, match=r"H100|at most"):
        machine(spec)


def test_cards_that_nobody_was_given_are_free(eyes: SimulatedEyes) -> None:
    snapshot = eyes.look(Depth.LOOK)
    assert snapshot.simulated
    assert {judge(gpu).activity for gpu in snapshot.gpus} == {Activity.FREE}


def test_a_process_that_was_given_a_card_holds_it_and_its_cpu_is_the_cards_load(
    eyes: SimulatedEyes, start: Start
) -> None:
    busy, quiet, little = start(WORKS, "0"), start(SLEEPS, "1"), start(WORKS_A_LITTLE, "2")
    snapshot = eyes.look(Depth.LOOK)
    pids = [[holder.pid for holder in gpu.holders] for gpu in snapshot.gpus if not isinstance(gpu.holders, Unknown)]
    assert pids == [[busy], [quiet], [little], []]
    activities = [judge(gpu).activity for gpu in snapshot.gpus]
    assert activities == [Activity.BUSY, Activity.FALLOW, Activity.BUSY, Activity.FREE]


def test_a_card_is_held_by_uuid_too_and_several_by_one(eyes: SimulatedEyes, start: Start) -> None:
    uuids = [gpu.uuid for gpu in eyes.look(Depth.GLANCE).gpus]
    pid = start(SLEEPS, f"{uuids[2]},{uuids[3]}")
    held = [gpu.index for gpu in eyes.look(Depth.GLANCE).gpus if gpu.holders]
    assert held == [2, 3]
    described = eyes.describe(eyes.look(Depth.GLANCE)).gpus[2].holders
    assert not isinstance(described, Unknown)
    assert described[0].pid == pid
    assert "sys.stdin.read" in str(described[0].command)


def test_its_memory_is_their_resident_memory(eyes: SimulatedEyes, start: Start) -> None:
    start("x = b'x' * 80_000_000; print('up', flush=True); input()", "3")
    memory = eyes.look(Depth.GLANCE).gpus[3].memory
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
