"""Stacks of a job: in a file that the sentence names, or a sentence that says why not."""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from fallow.actuators.process import py_spy
from fallow.core.process import Process
from fallow.readers.proc import Proc
from tests.actuators.process.stage import job, play
from tests.places import LIMIT_S

PROC = Proc()
STAND_IN = """#!/bin/sh
read kind < "$0.$3"
case $kind in
1) echo "Process 1: python train.py" ;;
2) echo "Error: Failed to find python version from target process"; exit 1 ;;
3) echo "Permission Denied: Try running again with elevated permissions"; exit 1 ;;
4) echo "Error: something new"; exit 1 ;;
5) printf 'Process 5: \\033]0;mine\\007\n    train (\\342\\200\\256train.py:3)\n' ;;
6)
    kill -9 $3
    while read pid name state rest < /proc/$3/stat && [ "$state" != Z ]; do :; done
    echo "Process 6: of whoever has this pid by now" ;;
esac
"""
Living = Callable[[int], Process]


def place(into: pathlib.Path) -> tuple[str, str]:
    return str(into.parent), into.name


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

    def start(kind: int) -> Process:
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


def test_the_stacks_are_in_the_file_that_the_sentence_names(
    tmp_path: pathlib.Path, environ: dict[str, str], living: Living
) -> None:
    into = tmp_path / "stacks.txt"
    assert (
        py_spy.dump(map(living, [1, 2, 1]), PROC, *place(into), environ)
        == f"the Python stacks of 2 processes are in {into}"
    )
    assert into.read_text() == "Process 1: python train.py\n\nProcess 1: python train.py\n"
    assert into.stat().st_mode & 0o777 == 0o600


def test_names_in_a_stack_cannot_move_the_cursor_of_whoever_reads_it(
    tmp_path: pathlib.Path, environ: dict[str, str], living: Living
) -> None:
    """V15, Weak: stack files with raw escape codes."""
    into = tmp_path / "stacks.txt"
    py_spy.dump([living(5)], PROC, *place(into), environ)
    assert into.read_text() == "Process 5: ?]0;mine?\n    train (?train.py:3)\n"


def test_a_process_that_ends_or_is_another_by_now_has_no_stack(
    tmp_path: pathlib.Path, environ: dict[str, str], living: Living
) -> None:
    into, ends, lives = tmp_path / "stacks.txt", living(6), living(1)
    another = Process(lives.pid, lives.birth - 1)
    sentence = py_spy.dump([ends, another], PROC, *place(into), environ)
    assert sentence == "no stacks: the job has no Python process that could be read"
    assert not into.exists()


def test_what_could_not_be_read_is_said(tmp_path: pathlib.Path, environ: dict[str, str], living: Living) -> None:
    into = tmp_path / "stacks.txt"
    job = [living(kind) for kind in (1, 3, 4)]
    sentence = py_spy.dump(job, PROC, *place(into), environ)
    assert sentence == (
        f"the Python stacks of 1 process are in {into}; left out: pid {job[1].pid}: py-spy may not look into it; "
        f"that needs root, or the capability SYS_PTRACE, pid {job[2].pid}: Error: something new"
    )


def test_a_job_without_python_has_no_stacks(tmp_path: pathlib.Path, environ: dict[str, str], living: Living) -> None:
    sentence = py_spy.dump([living(2)], PROC, *place(tmp_path / "stacks.txt"), environ)
    assert sentence == "no stacks: the job has no Python process that could be read"


def test_a_file_that_cannot_be_written_is_said(environ: dict[str, str], living: Living) -> None:
    assert py_spy.dump([living(1)], PROC, "/proc/no/such", "stacks.txt", environ).startswith(
        "no stacks: /proc/no/such"
    )


def test_a_py_spy_that_hangs_is_killed(tmp_path: pathlib.Path, environ: dict[str, str], living: Living) -> None:
    (tmp_path / "py-spy").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    process = living(1)
    sentence = py_spy.dump([process], PROC, *place(tmp_path / "stacks.txt"), environ, limit_s=0.2)
    assert sentence == f"no stacks; left out: pid {process.pid}: py-spy did not answer in 0.2 s"


def test_without_py_spy_a_sentence_says_so(tmp_path: pathlib.Path, living: Living) -> None:
    nowhere = str(tmp_path)
    sentence = py_spy.dump([living(1)], PROC, *place(tmp_path / "stacks.txt"), {"PATH": nowhere}, beside=nowhere)
    remedy = f"{sys.executable} -m pip install py-spy"
    assert sentence == f"no stacks: that needs py-spy, which is not installed; run: {remedy}"


def test_the_real_py_spy_shows_where_a_real_process_waits(tmp_path: pathlib.Path) -> None:
    beside = os.path.dirname(sys.executable)
    if shutil.which("py-spy", path=f"{os.environ['PATH']}:{beside}") is None:
        pytest.skip("py-spy is not installed")
    into = tmp_path / "stacks.txt"
    with play(job("ignores_term")) as scene:
        assert scene.line() == "ready"
        sentence = py_spy.dump([identity(scene.wrapper.pid)], PROC, *place(into), os.environ)
    assert sentence == f"the Python stacks of 1 process are in {into}"
    assert "live (jobs.py" in into.read_text()
