"""Programs that fallow runs for itself end in time, print so much at most, and get nothing meant for a job."""

import os
import pathlib
import signal
import subprocess

import pytest

from fallow.actuators.process import programs
from fallow.actuators.process.programs import Ran
from fallow.core.errors import CannotRun, CommandNotFound
from fallow.core.process import Ended
from fallow.core.unknown import Unknown
from tests.actuators.process.stage import job, play, wrapped
from tests.places import LIMIT_S
from tests.waiting import until


def shell(line: str, limit_s: float = LIMIT_S, stdin: bytes = b"", most_bytes: int = 1 << 20) -> Ran:
    return programs.run(["sh", "-c", line], os.environ, limit_s, stdin, most_bytes)


@pytest.mark.parametrize(
    ("line", "ran"),
    [
        ("echo good; echo bad >&2; exit 3", Ran(Ended(code=3), b"good\n", b"bad\n")),
        ("cat", Ran(Ended(code=0), b"given")),
        ("kill -SEGV $$", Ran(Ended(by_signal=signal.SIGSEGV))),
        ("echo said; exec > /dev/null 2>&1; sleep 0.1; exit 4", Ran(Ended(code=4), b"said\n")),
        ("echo late; exec sleep 1000", Ran(None, b"late\n")),
        ("trap '' TERM; echo late; sleep 1000", Ran(None, b"late\n")),
    ],
)
def test_how_it_ended_and_what_it_printed_comes_back(line: str, ran: Ran) -> None:
    assert shell(line, 0.5 if ran.ended is None else LIMIT_S, b"given") == ran


def test_what_a_program_leaves_in_the_background_keeps_nobody_waiting_and_prints_into_a_closed_pipe(
    tmp_path: pathlib.Path,
) -> None:
    told = tmp_path / "told"
    ran = shell(f"(trap '' PIPE; while echo word; do sleep 0.1; done; echo ended > {told}) 2> /dev/null & echo $!")
    assert ran.ok
    until(told.exists)


def test_of_a_long_output_only_the_end_is_kept_and_the_program_goes_on() -> None:
    ran = shell("seq 100000; seq 100000 >&2; exit 3", most_bytes=4096)
    assert (ran.ended, ran.cut, ran.last_line) == (Ended(code=3), True, "100000")
    assert (len(ran.output), len(ran.errors)) == (4096, 4096)


def test_many_bytes_come_back_whole_and_a_program_may_open_its_output_again() -> None:
    ran = shell("echo begun; head -c 500000 /dev/zero; echo ended > /dev/stdout")
    assert ran == Ran(Ended(code=0), b"begun\n" + bytes(500_000) + b"ended\n")


def test_the_end_of_a_program_is_not_lost_to_a_supervisor_that_reaps_every_child() -> None:
    with play(wrapped("help", job("ends_on_term"))) as scene:
        assert scene.line() == "ready"
        scene.tell("help")
        assert scene.line() == "wrapper: helper Ended(code=7, by_signal=None), job None"


def test_what_a_program_started_is_killed_with_it(tmp_path: pathlib.Path) -> None:
    ran = shell(f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 1000'; wait", 0.5)
    assert ran.ended is None
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not os.path.exists(f"/proc/{pid}"))


# Becomes root as sudo does, and stays.
BECOMES_ROOT = """
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>
int main(void) { setresuid(0, 0, 0); printf("%d\\n", getpid()); fflush(stdout); for (;;) pause(); }
"""


def becomes_root(folder: pathlib.Path) -> str:
    """A program that no other user can kill."""
    program = folder / "becomes-root"
    subprocess.run(["cc", "-x", "c", "-o", str(program), "-"], input=BECOMES_ROOT, text=True, check=True)
    program.chmod(0o4755)
    return str(program)


@pytest.mark.as_root
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_a_program_that_became_root_and_may_not_be_killed_took_too_long(open_folder: pathlib.Path) -> None:
    program = becomes_root(open_folder)
    os.setresuid(65534, 65534, 0)
    try:
        ran = programs.run([program], os.environ, 0.5)
    finally:
        os.setresuid(0, 0, 0)
    os.kill(int(ran.output), signal.SIGKILL)
    assert ran.ended is None


def test_a_program_begins_with_no_descriptor_of_ours_in_a_session_of_its_own() -> None:
    for_job, other = os.pipe()
    os.set_inheritable(for_job, True)
    try:
        ran = shell("ls /proc/self/fd; ps -o sid= -p $$; echo $$")
    finally:
        os.close(for_job)
        os.close(other)
    *descriptors, session, pid = map(int, ran.output.split())
    assert descriptors == [0, 1, 2, 3], "the last one is that of ls"
    assert session == pid


@pytest.mark.parametrize(
    ("command", "error"), [("no-such-program", CommandNotFound), ("/", CannotRun), (__file__, CannotRun)]
)
def test_a_program_that_cannot_be_started_is_an_error(command: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        programs.run([command], os.environ, LIMIT_S)


def test_many_programs_run_side_by_side_and_come_back_in_order() -> None:
    commands = [["sh", "-c", f"sleep 0.2; exit {number}"] for number in range(40)]
    ran = programs.run_many(commands, os.environ, LIMIT_S)
    assert ran == [Ran(Ended(code=number)) for number in range(40)]


@pytest.mark.parametrize(
    ("line", "last_line", "failure"),
    [
        ("echo out; echo first >&2; printf 'l\\033ast\\n\\n' >&2; exit 3", "l?ast", "l?ast"),
        ("echo out; exit 3", "out", "out"),
        ("exit 3", "", "exit code 3"),
        ("exec sleep 1000", "", "no answer"),
    ],
)
def test_the_reason_of_a_failure_is_the_last_line(line: str, last_line: str, failure: str) -> None:
    ran = shell(line, 0.3)
    assert (ran.ok, ran.last_line, ran.failure) == (False, last_line, failure)


@pytest.mark.parametrize(
    ("words", "why"), [(("sleep", "1000"), "did not answer within"), (("no-such-program",), "there is no command")]
)
def test_a_program_that_does_not_answer_is_unknown(words: tuple[str, ...], why: str) -> None:
    answer = programs.ask(words, os.environ, 0.3)
    assert isinstance(answer, Unknown)
    assert why in answer.why
