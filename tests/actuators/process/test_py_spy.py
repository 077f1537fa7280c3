"""Stacks of a job: those of its Python processes, and a sentence for those that py-spy could not read."""

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from fallow.actuators.process import programs, py_spy
from fallow.core.process import Process
from fallow.engine.jobs.stack_dump import write_stacks
from fallow.engine.machine.world import World
from fallow.readers.proc import Proc
from tests.actuators.process.stage import job, play
from tests.places import LIMIT_S

PROC = Proc()
STAND_IN = """#!/bin/sh
read kind < "$0.$3"
case $kind in
python) printf 'Process: \\033]0;mine\\007\n    train (\\342\\200\\256train.py:3)\n' ;;
another) echo "Error: Failed to find python version from target process"; exit 1 ;;
denied) echo "Permission Denied: Try running again with elevated permissions"; exit 1 ;;
hangs) exec /bin/sleep 60 ;;
ends)
    kill -9 $3
    while read pid name state rest < /proc/$3/stat && [ "$state" != Z ]; do :; done
    echo "Process: of whoever has this pid by now" ;;
esac
"""
STACK = "Process: ?]0;mine?\n    train (?train.py:3)"
Living = Callable[[str], Process]


@pytest.fixture
def environ(tmp_path: pathlib.Path) -> dict[str, str]:
    """A PATH where the only py-spy is a stand-in, which answers by pid."""
    program = tmp_path / "py-spy"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return {"PATH": str(tmp_path)}


@pytest.fixture
def living(tmp_path: pathlib.Path) -> Iterator[Living]:
    """Real processes, each of a kind that the stand-in knows."""
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str) -> Process:
        process = subprocess.Popen(["sleep", "1000"])
        started.append(process)
        (tmp_path / f"py-spy.{process.pid}").write_text(f"{kind}\n")
        return identity(process.pid)

    yield start
    for process in started:
        process.kill()
        process.wait(LIMIT_S)


def identity(pid: int) -> Process:
    stat = PROC.stat(pid)
    assert stat is not None
    return Process(pid, stat.birth)


def test_the_stacks_of_python_processes_are_read_without_control_characters_and_the_others_counted(
    environ: dict[str, str], living: Living
) -> None:
    kinds = ["python", "another", "ends", "denied", "denied", "python"]
    there = [living(kind) for kind in kinds]
    recycled = Process(there[0].pid, there[0].birth - 1)
    read, left_out = py_spy.stacks([*there, recycled], PROC, environ)
    assert read == [STACK, STACK]
    why = f"pid {there[3].pid}: Permission Denied: Try running again with elevated permissions, and 1 more"
    assert left_out == f"py-spy could not read {why}"


def test_a_py_spy_that_hangs_or_is_missing_is_named(environ: dict[str, str], living: Living) -> None:
    def look(_: int, command: Sequence[str], environ: Mapping[str, str]) -> programs.Ran:
        return programs.run(command, environ, 0.2)

    process = living("hangs")
    hangs = f"py-spy could not read pid {process.pid}: no answer"
    assert py_spy.stacks([process], PROC, environ, look) == ([], hangs)
    read, left_out = py_spy.stacks([process], PROC, {"PATH": "/nowhere"})
    assert (read, "there is no command 'py-spy'" in left_out) == ([], True)
    assert py_spy.with_ours({"PATH": "/nowhere"})["PATH"].startswith("/nowhere:")


def test_of_a_job_with_many_processes_16_are_read(environ: dict[str, str], living: Living) -> None:
    read, _ = py_spy.stacks([living("python")] * 20, PROC, environ)
    assert len(read) == 16


@pytest.mark.parametrize(("kind", "says"), [("python", "the Python stacks of 1 process are in "), ("another", "")])
def test_they_are_in_a_file_that_only_we_read(
    tmp_path: pathlib.Path, environ: dict[str, str], living: Living, kind: str, says: str
) -> None:
    world = World({**environ, "FALLOW_STATE_DIR": str(tmp_path / "state")})
    process = living(kind)
    into = tmp_path / "state" / f"stacks-{process.pid}-{process.birth}.txt"
    sentence = write_stacks(world, [process], process).words
    assert sentence == (f"{says}{into}" if says else "no stacks: the job has no Python process that could be read")
    assert (into.read_text() if into.exists() else "") == (f"{STACK}\n" if says else "")
    assert not into.exists() or into.stat().st_mode & 0o777 == 0o600
    world.close()


def test_a_file_that_cannot_be_written_is_said(environ: dict[str, str], living: Living) -> None:
    world = World({**environ, "FALLOW_STATE_DIR": "/proc/no/such"})
    process = living("python")
    assert write_stacks(world, [process], process).words.startswith("no stacks: /proc/no/such")
    world.close()


def test_the_real_py_spy_shows_where_a_real_process_waits() -> None:
    environ = py_spy.with_ours(os.environ)
    if shutil.which("py-spy", path=environ["PATH"]) is None:
        pytest.skip("py-spy is not installed")
    with play(job("ignores_term")) as scene:
        assert scene.line() == "ready"
        (stack,), _ = py_spy.stacks([identity(scene.wrapper.pid)], PROC, environ)
    assert "live (jobs.py" in stack
