"""A supervised job gets what it would get without us, and ends as it would."""

import os
import pathlib
import signal

import pytest

from tests.actuators.process.stage import job, play, wrapped

PASSED_ON = ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGWINCH", "SIGRTMIN"]


def test_each_signal_to_the_wrapper_reaches_the_job_once() -> None:
    with play(wrapped("watch", job("tells_signals"))) as scene:
        assert str(scene.line()).startswith("ready")
        for name in PASSED_ON:
            os.kill(scene.wrapper.pid, signal.Signals[name])
            assert scene.line() == name
        os.kill(scene.wrapper.pid, signal.SIGUSR2)  # ends it
        assert scene.rest() == []
        assert scene.code() == 0


def test_what_a_job_sends_to_its_parent_does_not_come_back_to_it() -> None:
    with play(wrapped("watch", job("signals_its_parent"))) as scene:
        assert scene.line() == "ready"
        os.kill(scene.wrapper.pid, signal.SIGUSR2)
        assert scene.rest() == ["SIGUSR2"]


def test_the_job_begins_with_the_signals_that_fallow_was_started_with() -> None:
    def as_nohup_does() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    with play(wrapped("watch", job("tells_signals")), before=as_nohup_does) as scene:
        blocked, ignored = int(signal.SIGUSR1), int(signal.SIGHUP)
        assert str(scene.line()).endswith(f"blocked=[{blocked}] ignored=[{ignored}]")


def test_signals_that_python_ignores_are_at_their_default_in_the_job() -> None:
    with play(wrapped("watch", ["/bin/sh", "-c", "grep SigIgn: /proc/self/status > /dev/fd/$REPORT_FD"])) as scene:
        (line,) = scene.rest()
        ignored = int(line.split()[1], 16)
        assert ignored & 0x7FFFFFFF == 0  # the two above are glibc's own, as in all that posix_spawn starts


def test_the_job_goes_on_when_the_wrapper_is_killed() -> None:
    with play(wrapped("watch", job("tells_signals"))) as scene:
        pid = int(str(scene.line()).split()[1])
        scene.wrapper.kill()
        assert scene.code() == -signal.SIGKILL
        os.kill(pid, signal.SIGUSR1)
        assert scene.line() == "SIGUSR1"
        os.kill(pid, signal.SIGUSR2)
        assert scene.rest() == []


@pytest.mark.parametrize(
    ("line", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 130", 130), ("exit 255", 255)]
    + [(f"ulimit -c 0; kill -{number} $$", -number) for number in (2, 9, 11, 13, 15)],
)
def test_exit_codes_and_deaths_by_signal_come_through(line: str, code: int) -> None:
    with play(wrapped("watch", ["/bin/sh", "-c", line])) as scene:
        assert scene.code() == code


def test_a_script_stops_when_its_job_dies_of_ctrl_c() -> None:
    line = '"$@"; echo went on > /dev/fd/$REPORT_FD'
    with play(["bash", "-c", line, "bash", *wrapped("watch", job("group_dies_of_int"))]) as scene:
        assert scene.rest() == ["ready"]
        assert scene.code() == -signal.SIGINT


def test_a_background_process_of_a_job_that_ended_well_goes_on() -> None:
    with play(wrapped("watch", job("orphan_of_an_ended_job"))) as scene:
        assert scene.code() == 0
        assert scene.line() == "ready"


def test_a_command_that_cannot_be_run_is_said(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "train"
    path.write_text("import torch")
    path.chmod(0o755)
    not_there = ("/nowhere/train", "is not there any more", 127)
    for command, why, code in (not_there, (str(path), "is no program; does it lack a #! line?", 126)):
        with play(wrapped("watch", [command])) as scene:
            assert scene.rest() == [f"wrapper: {command} {why}"]
            assert scene.code() == code
