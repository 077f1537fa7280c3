"""The tests pass wherever they run and whoever starts them."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S, REPOSITORY

IGNORED_BY_NOHUP_AND_SCRIPTS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def test_what_a_test_starts_ignores_no_signal() -> None:
    """F16"""
    status = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    ignored = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    assert int(ignored, 16) & (2**31 - 1) == 0, "the C library keeps 32 and 33 to itself"


@pytest.mark.more
def test_it_does_not_matter_which_signals_are_ignored_where_the_tests_are_started(tmp_path: pathlib.Path) -> None:
    """F16"""

    def ignore() -> None:
        for number in IGNORED_BY_NOHUP_AND_SCRIPTS:
            signal.signal(number, signal.SIG_IGN)

    this = f"{__file__}::{test_what_a_test_starts_ignores_no_signal.__name__}"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", this],
        cwd=REPOSITORY,
        env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path)},
        preexec_fn=ignore,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_a_test_that_waits_for_words_does_not_wait_for_ever() -> None:
    """F22"""
    with subprocess.Popen(["sh", "-c", "echo one >&2; exec sleep 60"], stderr=subprocess.PIPE, text=True) as quiet:
        with pytest.raises(AssertionError, match=r"not said 'two' in time; it said .'one'"):
            Fill(quiet).until("two", limit_s=0.2)
        quiet.kill()
