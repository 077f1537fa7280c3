"""Programs that fallow runs for itself end in time, and get nothing that is meant for the job."""

import os
import pathlib
import select
import signal
import subprocess

import pytest

from fallow.actuators.process.helpers import Helpers
from fallow.core.errors import CommandNotFound
from fallow.engine.machine.clock import SystemClock
from tests.places import LIMIT_S


@pytest.fixture
def helpers() -> Helpers:
    return Helpers(SystemClock().monotonic_s)


def shell(helpers: Helpers, line: str, limit_s: float = LIMIT_S) -> tuple[int | None, str]:
    ran = helpers.run(["sh", "-c", line], os.environ, limit_s)
    return None if ran.ended is None else ran.ended.exit_code, ran.output


def test_it_comes_back_with_exit_code_and_words(helpers: Helpers) -> None:
    assert shell(helpers, "echo good; echo bad >&2; exit 3") == (3, "good\nbad\n")


def test_a_death_by_signal_is_told(helpers: Helpers) -> None:
    assert shell(helpers, "kill -SEGV $$")[0] == 128 + signal.SIGSEGV


def test_one_that_hangs_is_killed_with_all_that_it_started(helpers: Helpers) -> None:
    read_end, write_end = os.pipe()
    # Opened anew through its path, so that only the shell's child holds it once we let go of ours.
    line = f"sleep 60 > /proc/{os.getpid()}/fd/{write_end} & echo waiting; wait"
    assert shell(helpers, line, 0.5) == (None, "waiting\n")
    os.close(write_end)
    assert select.select([read_end], [], [], LIMIT_S)[0]
    assert os.read(read_end, 1) == b""  # the end of the file: nobody has it open any more
    os.close(read_end)


def test_one_that_talks_without_end_is_killed_and_its_last_words_kept(helpers: Helpers) -> None:
    code, output = shell(helpers, "while :; do echo word; done", 0.2)
    assert code is None
    assert len(output) <= 64 * 1024
    assert "word" in output[-10:]


# Becomes root as sudo does, and stays.
BECOMES_ROOT = """
#define _GNU_SOURCE
#include <unistd.h>
int main(void) { setresuid(0, 0, 0); for (;;) pause(); }
"""


@pytest.mark.as_root
def test_one_that_became_root_and_may_not_be_killed_took_too_long_and_no_more(
    helpers: Helpers, open_folder: pathlib.Path
) -> None:
    program = open_folder / "becomes-root"
    subprocess.run(["cc", "-x", "c", "-o", str(program), "-"], input=BECOMES_ROOT, text=True, check=True)
    program.chmod(0o4755)
    os.setresuid(65534, 65534, 0)
    try:
        ran = helpers.run([str(program)], os.environ, 0.5)
    finally:
        os.setresuid(0, 0, 0)
        for pid in helpers.sessions:
            os.kill(pid, signal.SIGKILL)
    assert ran.ended is None


def test_what_it_leaves_running_keeps_nobody_waiting(helpers: Helpers) -> None:
    code, output = shell(helpers, "sleep 60 & echo $!")
    os.kill(int(output), signal.SIGKILL)
    assert code == 0


def test_one_that_closes_its_output_is_waited_for(helpers: Helpers) -> None:
    assert shell(helpers, "echo said; exec > /dev/null 2>&1; sleep 0.1; exit 4") == (4, "said\n")


def test_it_does_not_inherit_what_is_meant_for_the_job(helpers: Helpers) -> None:
    for_job, other = os.pipe()
    os.set_inheritable(for_job, True)
    try:
        assert shell(helpers, f"test -e /proc/self/fd/{for_job}")[0] == 1
    finally:
        os.close(for_job)
        os.close(other)


def test_it_begins_with_no_signal_blocked_in_a_session_of_its_own(helpers: Helpers) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    try:
        _, output = shell(helpers, "grep SigBlk: /proc/self/status; ps -o sid= -p $$; echo $$")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    blocked, session, pid = output.splitlines()
    assert blocked == "SigBlk:\t0000000000000000"
    assert int(session) == int(pid)
    assert int(pid) in helpers.sessions


def test_one_that_is_not_there_is_said(helpers: Helpers) -> None:
    with pytest.raises(CommandNotFound):
        helpers.run(["no-such-program"], os.environ, LIMIT_S)
