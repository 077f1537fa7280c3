"""The harness itself: it shows what a test says, touches nothing, and leaves nothing behind."""

import os
import pathlib
import signal

import pytest

from tests.harness import BecomesAnotherProgram, Machine, ManualClock, cli

RULE = """
[[idle]]
name = "forgotten"
act = true
idle_for = "20s"
warn_before = "10s"
warmup = "0s"
grace = "5s"
"""


@pytest.fixture
def environ(tmp_path: pathlib.Path) -> dict[str, str]:
    folders = {f"FALLOW_{name}_DIR": str(tmp_path / name) for name in ("CLAIM", "STATE")}
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "FALLOW_SIMULATE": "2xH100", **folders}


def test_an_idle_job_is_warned_asked_and_killed(machine: Machine) -> None:
    machine.gpu(0).held_by(4711, ignores=[signal.SIGTERM])
    machine.configure(RULE)
    machine.pass_(seconds=60)
    assert machine.steps() == ["warn at 0:00:10", "ask at 0:00:20", "kill at 0:00:25"]
    assert machine.done == ["SIGTERM to 4711", "SIGKILL to 4711"]


def test_a_filler_leaves_when_somebody_comes(machine: Machine) -> None:
    machine.configure("[[filler]]\nname = 'spare'\ncommand = ['true']\ngpus = '0'\nidle_for = '5s'\n")
    machine.pass_(seconds=10)
    assert machine.done == ["start spare on GPU 0"]
    machine.gpu(0).held_by(4711, load=0.9)
    machine.pass_(seconds=2)
    assert machine.done[1:] == ["ask spare on GPU 0"]


def test_power_off_is_only_recorded(machine: Machine) -> None:
    machine.configure("[[guard]]\nname = 'evening'\naction = 'shutdown'\narm_for = '2s'\nidle_for = '5s'\n")
    machine.gpu(0).held_by(4711, load=0.9)
    machine.pass_(seconds=5)
    machine.gpu(0).left_by(4711)
    machine.pass_(minutes=10)
    assert machine.done[-1] == "shutdown"


def test_a_command_runs_in_this_process_and_leaves_nothing_behind(environ: dict[str, str]) -> None:
    before = (dict(os.environ), os.getcwd(), signal.getsignal(signal.SIGINT), len(os.listdir("/proc/self/fd")))
    done = cli("status", environ=environ)
    assert (done.code, done.err) == (0, "")
    assert "H100" in done.out
    ran = cli(
        "run", "--idle-timeout", "1h", "--", "sh", "-c", "cat; echo from the job", environ=environ, stdin="in\n"
    )
    assert (ran.code, ran.out) == (0, "in\nfrom the job\n")
    after = (dict(os.environ), os.getcwd(), signal.getsignal(signal.SIGINT), len(os.listdir("/proc/self/fd")))
    assert after == before


def test_a_command_tells_the_time_of_its_clock(environ: dict[str, str]) -> None:
    assert '"at": "2023-11-14T22:30:00' in cli("pick", "--log-format", "json", "--gpus", "9", clock=ManualClock()).err


def test_a_wrong_command_line_is_refused_with_one_sentence() -> None:
    wrong = cli("pick", "--gpus")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "fallow: --gpus: needs a value (see: fallow pick --help)\n"


def test_a_command_that_becomes_another_program_is_stopped_before(environ: dict[str, str]) -> None:
    with pytest.raises(BecomesAnotherProgram):
        cli("run", "--", "true", environ=environ)
