"""Conditions on the processes of real jobs: they spin, end and are waited for."""

import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.readers.proc import Proc
from tests.engine.conditions.stage import conditions, job_of, told_by
from tests.places import LIMIT_S
from tests.waiting import until

Start = Callable[[str], "subprocess.Popen[str]"]
WAITS = "signal.pause()"
SPINS = "while True: pass"


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a job: a process that leads a session, and has said that it is ready."""
    started: list[subprocess.Popen[str]] = []

    def make(program: str) -> "subprocess.Popen[str]":
        text = "import os, signal, subprocess, sys, time\nprint('ready', flush=True)\n" + textwrap.dedent(program)
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", text], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield make
    for process in started:
        for pid in [row.pid for row in Proc().everybody() if row.session == process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        process.communicate(timeout=LIMIT_S)


def is_reason(found: object) -> bool:
    return isinstance(found, Reason)


@pytest.mark.more
def test_a_process_that_spins_uses_the_cpu_and_one_that_waits_does_not(tmp_path: pathlib.Path, start: Start) -> None:
    made = conditions(tmp_path)
    busy, quiet = (made.begin(["cpu:10"])[0] for _ in range(2))
    spins, waits = start(SPINS), start(WAITS)
    first = busy(job_of(spins.pid))
    assert isinstance(first, Unknown), "a rate cannot be told at the first look"
    assert not first.asked
    reason = told_by(busy, job_of(spins.pid), is_reason)
    assert reason.kind == "job_cpu"
    assert told_by(quiet, job_of(waits.pid)) is None


@pytest.mark.more
def test_work_of_a_child_counts_and_so_does_work_of_children_that_end_between_two_looks(
    tmp_path: pathlib.Path, start: Start
) -> None:
    (below,) = conditions(tmp_path).begin(["cpu:10"])
    job = start(f"subprocess.Popen([sys.executable, '-S', '-c', '{SPINS}'])\nsignal.pause()")
    assert told_by(below, job_of(job.pid), is_reason).kind == "job_cpu"
    (short,) = conditions(tmp_path).begin(["cpu:10"])
    again = start("while True: subprocess.run([sys.executable, '-S', '-c', 'sum(range(1_000_000))'])")
    assert told_by(short, job_of(again.pid), is_reason).kind == "job_cpu"


@pytest.mark.more
def test_the_other_end_of_a_pipeline_counts_and_a_neighbour_does_not(tmp_path: pathlib.Path, start: Start) -> None:
    """A pipeline is one process group; what reads it holds the GPU and waits."""
    pipeline = start(
        f"""
        work = subprocess.Popen([sys.executable, '-S', '-c', '{SPINS}'])
        waits = subprocess.Popen(['sleep', '1000'])
        print(waits.pid, flush=True)
        signal.pause()
        """
    )
    start(SPINS)
    assert pipeline.stdout is not None
    holder = int(pipeline.stdout.readline())
    (condition,) = conditions(tmp_path).begin(["cpu:10"])
    assert told_by(condition, job_of(holder), is_reason).kind == "job_cpu"
    (alone,) = conditions(tmp_path).begin(["cpu:10"])
    assert told_by(alone, job_of(start(WAITS).pid)) is None


def test_a_job_that_has_ended_cannot_be_told(tmp_path: pathlib.Path, start: Start) -> None:
    job = start(WAITS)
    known = job_of(job.pid)
    job.kill()
    job.wait(LIMIT_S)
    (condition,) = conditions(tmp_path).begin(["cpu:10"])
    assert isinstance(condition(known), Unknown)
    until(lambda: "ended" in str(condition(known)))


def test_a_gpu_that_nobody_holds_is_not_in_use_by_its_processes(tmp_path: pathlib.Path) -> None:
    nobody = replace(job_of(os.getpid()), members={}, pids=frozenset())
    for condition in conditions(tmp_path).begin(["cpu:10", "jupyter"]):
        assert condition(nobody) is None


def test_a_kernel_that_no_server_started_cannot_be_told_and_a_job_without_a_kernel_is_not_concerned(
    tmp_path: pathlib.Path, start: Start
) -> None:
    (condition,) = conditions(tmp_path).begin(["jupyter"])
    file = f"{tmp_path}/kernel-14489c42-a288-4893-b758-511312669828.json"
    program = "print('up', flush=True); input()"
    words = [sys.executable, "-S", "-c", program, "-f", file]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"up\n"
        assert "no Jupyter server started its kernel" in str(told_by(condition, job_of(kernel.pid)))
        kernel.communicate(b"\n", timeout=LIMIT_S)
    assert condition(job_of(start(WAITS).pid)) is None
