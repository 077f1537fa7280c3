"""The Slurm of the tests is a real one, is its own, and leaves nothing behind."""

import pathlib
import subprocess
import sys

import pytest

from tests.places import LIMIT_S, REPOSITORY
from tests.real_slurm import Slurm
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.more]


def processes_with(word: str) -> list[str]:
    """Return the command lines that name a folder."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
    return found


def test_a_job_gets_its_cards_and_its_user(slurm: Slurm) -> None:
    job = slurm.running("--gres=gpu:2", user="news")
    assert slurm.field(job, "UserId").startswith("news(")
    assert slurm.field(job, "GRES") == "gpu:2(IDX:0-1)"
    assert slurm("scancel", job, user="games").returncode != 0
    slurm.said("scancel", job, user="news")
    until(lambda: slurm.state(job), lambda state: state == "CANCELLED", pause_s=0.1)


def test_the_controller_can_be_silent_and_gone_and_comes_back(slurm: Slurm) -> None:
    job = slurm.running("--gres=gpu:1")
    slurm.stop_controller()
    assert slurm("squeue").returncode != 0
    slurm.start_controller()
    assert slurm.state(job) == "RUNNING"
    with slurm.silent_controller(), pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(["squeue"], env=slurm.environ, timeout=0.5, check=False)
    assert slurm.state(job) == "RUNNING"


def test_two_run_side_by_side_and_leave_nothing(slurm: Slurm) -> None:
    other = Slurm()
    slurm.running("--gres=gpu:4")
    other.running("--gres=gpu:4")
    assert processes_with(str(other.folder))
    other.close()
    assert processes_with(str(other.folder)) == []
    assert not other.folder.exists()
    assert slurm.said("squeue", "--noheader", "--format=%T") == "RUNNING"


def test_it_ends_with_the_one_who_brought_it_up(tmp_path: pathlib.Path) -> None:
    script = (
        "import os; from tests.real_slurm import Slurm; made = Slurm(); made.running('--gres=gpu:1');"
        f"open({str(tmp_path / 'name')!r}, 'w').write(str(made.folder)); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, timeout=LIMIT_S, check=False)
    folder = (tmp_path / "name").read_text()
    assert until(lambda: processes_with(folder), lambda left: left == []) == []
    subprocess.run(["rm", "-r", folder], check=True)
