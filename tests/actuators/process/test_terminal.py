"""On a real terminal a supervised job is stopped, continued and interrupted as if nobody stood between."""

import fcntl
import os
import pathlib
import signal
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from tests.actuators.process.stage import HERE, Scene, job, play, wrapped
from tests.waiting import until

CTRL_C = b"\x03"
CTRL_Z = b"\x1a"
OFTEN = 10  # two deliveries in quick succession may look like one, but not each time


@contextmanager
def in_a_shell(name: str) -> Iterator[tuple[Scene, int, int]]:
    """The scene, our end of the terminal, and the pid of the wrapper, once the job is ready."""
    keyboard, terminal = os.openpty()
    command = [sys.executable, str(HERE / "small_shell.py"), str(terminal), *wrapped("watch", job(name))]
    with play(command, descriptors=(terminal,), session=False) as scene:
        os.close(terminal)
        try:
            wrapper = int(str(scene.line()).split()[2])
            assert str(scene.line()).startswith("ready")
            yield scene, keyboard, wrapper
        finally:
            os.close(keyboard)


def test_ctrl_c_and_a_new_window_size_reach_the_job_once() -> None:
    with in_a_shell("tells_signals") as (scene, keyboard, wrapper):
        for columns in range(OFTEN):
            os.write(keyboard, CTRL_C)
            assert scene.line() == "SIGINT"
            fcntl.ioctl(keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80 + columns, 0, 0))
            assert scene.line() == "SIGWINCH"
            os.kill(wrapper, signal.SIGUSR1)
            assert scene.line() == "SIGUSR1"


def test_ctrl_c_that_the_job_does_not_catch_ends_both() -> None:
    with in_a_shell("ignores_term") as (scene, keyboard, _):
        os.write(keyboard, CTRL_C)
        assert scene.rest() == ["shell: ended -2"]


def test_ctrl_z_stops_job_and_wrapper_and_fg_continues_both() -> None:
    with in_a_shell("tells_continues") as (scene, keyboard, wrapper):
        for _ in range(OFTEN):
            os.write(keyboard, CTRL_Z)
            assert scene.line() == "shell: stopped SIGTSTP"
            scene.tell("fg")
            assert scene.line() == "SIGCONT"
            os.kill(wrapper, signal.SIGRTMIN)  # fetched after a SIGCONT that waits
            assert scene.line() == "SIGRTMIN"


def test_a_stop_signal_to_the_wrapper_stops_both_and_a_continue_signal_continues_both() -> None:
    with in_a_shell("tells_continues") as (scene, _, wrapper):
        os.kill(wrapper, signal.SIGTSTP)
        assert scene.line() == "shell: stopped SIGTSTP"
        scene.tell("wait")
        os.kill(wrapper, signal.SIGCONT)
        assert scene.line() == "SIGCONT"
        os.kill(wrapper, signal.SIGINT)
        assert scene.line() == "SIGINT"


def test_a_terminal_that_hangs_up_is_heard_where_the_wrapper_leads_the_session() -> None:
    keyboard, terminal = os.openpty()
    command = wrapped("watch", job("tells_signals"))
    with play(command, descriptors=(terminal,), session=False, before=lambda: os.login_tty(terminal)) as scene:
        os.close(terminal)
        assert str(scene.line()).startswith("ready")
        os.close(keyboard)
        assert scene.line() == "SIGHUP"
        os.kill(scene.wrapper.pid, signal.SIGUSR2)
        assert scene.rest() == []


def test_a_job_that_somebody_stops_where_no_shell_waits_does_not_stop_the_wrapper() -> None:
    with play(wrapped("watch", job("tells_signals"))) as scene:
        pid = int(str(scene.line()).split()[1])
        os.kill(pid, signal.SIGSTOP)
        until(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        os.kill(scene.wrapper.pid, signal.SIGRTMIN)  # behind SIGCHLD: passed on only by a wrapper that did not stop
        wait_until_pending(pid, signal.SIGRTMIN)
        os.kill(pid, signal.SIGCONT)
        assert scene.line() == "SIGRTMIN"
        os.kill(pid, signal.SIGUSR2)
        assert scene.rest() == []
        assert scene.code() == 0


def wait_until_pending(pid: int, number: signal.Signals) -> None:
    def is_pending() -> bool:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        (pending,) = (line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:"))
        return bool(int(pending, 16) >> (number - 1) & 1)

    until(is_pending)
