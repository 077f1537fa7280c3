"""In a pid namespace with somebody else's /proc, numbers mean other processes: nobody is signalled by them. F28"""

import os
import pathlib
import shutil
import subprocess

import pytest

from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.places import LIMIT_S


def inside(fallow: Fallow, *words: str) -> "subprocess.CompletedProcess[str]":
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a pid namespace needs unshare and root")
    return subprocess.run(
        ["unshare", "--fork", "--pid", "--kill-child", "fallow", *words],
        env=fallow.environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--idle-timeout", "1s", "--", "sleep", "600"),
        ("fill", "--", "sleep", "600"),
        ("guard", "--attach", "1", "--action", "signal:INT"),
        ("up",),
    ],
    ids=lambda words: words[0],
)
def test_what_would_signal_by_the_wrong_numbers_is_refused_at_the_start(
    simulated: Fallow, words: tuple[str, ...]
) -> None:
    """F28"""
    done = inside(simulated, *words)
    assert done.returncode == 77, done.stderr
    assert "/proc is that of another pid namespace" in done.stderr
    assert "--mount-proc" in done.stderr


def test_status_works_and_says_that_its_pids_are_not_ours(simulated: Fallow) -> None:
    """F28"""
    done = inside(simulated, "status")
    assert done.returncode == 0, done.stderr
    assert "the pids shown are of another pid namespace" in done.stderr
    assert "4 x H100 (simulated)" in done.stdout


def test_a_plain_run_needs_no_pids_and_works(simulated: Fallow) -> None:
    """F28"""
    assert inside(simulated, "run", "--", "true").returncode == 0


def test_a_proc_of_our_own_is_known(tmp_path: pathlib.Path) -> None:
    """F28"""
    assert Proc().whose_pids() is None
    assert Proc(str(tmp_path)).whose_pids() is None, "without /proc there are no pids at all"
    (tmp_path / "self").symlink_to("4242")
    why = Proc(str(tmp_path)).whose_pids()
    assert why is not None
    assert "shows us as 4242" in why
