"""Stacks of a job: in a file that the sentence names, or a sentence that says why not."""

import os
import pathlib
import shutil
import sys

import pytest

from fallow.actuators.process import py_spy
from fallow.actuators.process.helpers import Helpers
from fallow.engine.machine.clock import SystemClock
from tests.actuators.process.stage import job, play
from tests.conftest import refuse_to_skip

STAND_IN = """#!/bin/sh
case $3 in
1) echo "Process 1: python train.py" ;;
2) echo "Error: Failed to find python version from target process"; exit 1 ;;
3) echo "Permission Denied: Try running again with elevated permissions"; exit 1 ;;
4) echo "Error: something new"; exit 1 ;;
5) printf 'Process 5: \\033]0;mine\\007\n    train (\\342\\200\\256train.py:3)\n' ;;
esac
"""


def place(into: pathlib.Path) -> tuple[str, str]:
    return str(into.parent), into.name


@pytest.fixture
def helpers() -> Helpers:
    return Helpers(SystemClock().monotonic_s)


@pytest.fixture
def environ(tmp_path: pathlib.Path) -> dict[str, str]:
    """A PATH where the only py-spy is a stand-in, which answers by pid."""
    program = tmp_path / "py-spy"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return {"PATH": str(tmp_path)}


def test_the_stacks_are_in_the_file_that_the_sentence_names(
    tmp_path: pathlib.Path, helpers: Helpers, environ: dict[str, str]
) -> None:
    into = tmp_path / "stacks.txt"
    assert py_spy.dump([1, 2, 1], *place(into), helpers, environ) == f"the Python stacks of 2 processes are in {into}"
    assert into.read_text() == "Process 1: python train.py\n\nProcess 1: python train.py\n"
    assert into.stat().st_mode & 0o777 == 0o600


def test_names_in_a_stack_cannot_move_the_cursor_of_whoever_reads_it(
    tmp_path: pathlib.Path, helpers: Helpers, environ: dict[str, str]
) -> None:
    """V15, Weak: stack files with raw escape codes."""
    into = tmp_path / "stacks.txt"
    py_spy.dump([5], *place(into), helpers, environ)
    assert into.read_text() == "Process 5: ?]0;mine?\n    train (?train.py:3)\n"


def test_what_could_not_be_read_is_said(tmp_path: pathlib.Path, helpers: Helpers, environ: dict[str, str]) -> None:
    into = tmp_path / "stacks.txt"
    sentence = py_spy.dump([1, 3, 4], *place(into), helpers, environ)
    assert sentence == (
        f"the Python stacks of 1 process are in {into}; left out: pid 3: py-spy may not look into it; "
        "that needs root, or the capability SYS_PTRACE, pid 4: Error: something new"
    )


def test_a_missing_permission_is_said(tmp_path: pathlib.Path, helpers: Helpers, environ: dict[str, str]) -> None:
    sentence = py_spy.dump([3], *place(tmp_path / "stacks.txt"), helpers, environ)
    assert "py-spy may not look into it" in sentence
    assert not (tmp_path / "stacks.txt").exists()


def test_a_job_without_python_has_no_stacks(
    tmp_path: pathlib.Path, helpers: Helpers, environ: dict[str, str]
) -> None:
    sentence = py_spy.dump([2], *place(tmp_path / "stacks.txt"), helpers, environ)
    assert sentence == "no stacks: the job has no Python process that could be read"


def test_a_file_that_cannot_be_written_is_said(helpers: Helpers, environ: dict[str, str]) -> None:
    assert py_spy.dump([1], "/proc/no/such", "stacks.txt", helpers, environ).startswith("no stacks: /proc/no/such")


def test_a_py_spy_that_hangs_is_killed(tmp_path: pathlib.Path, helpers: Helpers, environ: dict[str, str]) -> None:
    (tmp_path / "py-spy").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    sentence = py_spy.dump([1], *place(tmp_path / "stacks.txt"), helpers, environ, limit_s=0.2)
    assert sentence == "no stacks; left out: pid 1: py-spy did not answer in 0.2 s"


def test_without_py_spy_a_sentence_says_so(tmp_path: pathlib.Path, helpers: Helpers) -> None:
    nowhere = str(tmp_path)
    sentence = py_spy.dump([1], *place(tmp_path / "stacks.txt"), helpers, {"PATH": nowhere}, beside=nowhere)
    remedy = f"{sys.executable} -m pip install py-spy"
    assert sentence == f"no stacks: that needs py-spy, which is not installed; run: {remedy}"


def test_the_real_py_spy_shows_where_a_real_process_waits(tmp_path: pathlib.Path, helpers: Helpers) -> None:
    beside = os.path.dirname(sys.executable)
    if shutil.which("py-spy", path=f"{os.environ['PATH']}:{beside}") is None:
        refuse_to_skip("py-spy is not installed")
    into = tmp_path / "stacks.txt"
    with play(job("ignores_term")) as scene:
        assert scene.line() == "ready"
        sentence = py_spy.dump([scene.wrapper.pid], *place(into), helpers, os.environ)
    assert sentence == f"the Python stacks of 1 process are in {into}"
    assert "live (jobs.py" in into.read_text()


@pytest.mark.parametrize("kind", ["file", "fifo", "link", "folder"])
def test_what_is_there_already_is_neither_taken_nor_waited_for(
    tmp_path: pathlib.Path, helpers: Helpers, environ: dict[str, str], kind: str
) -> None:
    """V15: a neighbour's file would show the stacks, her FIFO would hang whoever writes them."""
    folder, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    folder.mkdir(mode=0o700)
    taken = folder / "stacks-1.txt"
    match kind:
        case "file":
            taken.write_text("hers")
        case "fifo":
            os.mkfifo(taken)
        case "link":
            taken.symlink_to(elsewhere)
        case "folder":
            taken.mkdir()
    sentence = py_spy.dump([1], str(folder), "stacks-1.txt", helpers, environ)
    written = folder / "stacks-1-2.txt"
    assert sentence == f"the Python stacks of 1 process are in {written}"
    assert written.stat().st_mode & 0o777 == 0o600
    assert not elsewhere.exists()
    assert kind != "file" or taken.read_text() == "hers"
