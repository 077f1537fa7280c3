"""`fallow run` with a timeout: real jobs on simulated GPUs, really stopped, with nothing left behind."""

import json
import os
import pathlib
import re
import textwrap
import time

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S

FAST = ("--warmup", "0.5s", "--every", "0.25s", "--grace", "1s")
WORKS = "while time.process_time() < {seconds}: pass\n"


def job(text: str) -> list[str]:
    program = "import os, signal, subprocess, sys, time\n" + textwrap.dedent(text)
    return ["python", "-c", program]


def left_over(mark: str) -> list[int]:
    """Living processes that carry a mark in their environment."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in pathlib.Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


def test_a_job_that_works_and_then_sleeps_ends_with_124_in_its_time_and_is_told_why(simulated: Fallow) -> None:
    began = time.monotonic()
    done = simulated("run", "--idle-timeout", "2s", *FAST, "--", *job(WORKS.format(seconds=1.5) + "time.sleep(600)"))
    assert done.returncode == 124
    assert "will be stopped" in done.stderr
    assert re.search(r"stopped: idle for [2-9](\.\d)?s: GPU \d: its processes ran 0\.0% of the time", done.stderr)
    assert time.monotonic() - began >= 3.5


ON_THE_CPU = """
mine = {name: text for name, text in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
spin = "import time\\nwhile time.process_time() < 3: pass"
subprocess.run([sys.executable, "-c", spin], env=mine)
time.sleep({seconds})
"""


@pytest.mark.more
def test_a_job_that_uses_the_cpu_is_stopped_only_once_it_no_longer_does(simulated: Fallow) -> None:
    fast = ("--warmup", "0s", "--idle-timeout", "2s", "--unless", "cpu:5")
    done = simulated("run", *fast, "--", *job(ON_THE_CPU.replace("{seconds}", "600")))
    assert done.returncode == 124
    spent = [line for line in done.stderr.splitlines() if "stopping the job" in line]
    assert len(spent) == 1
    story = simulated("why").stdout
    assert "unless cpu:5: no" in story, "the evidence names the condition"


@pytest.mark.parametrize(
    "program",
    [
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
            os._exit(0)
        time.sleep(600)
        """,
    ],
    ids=["ignores SIGTERM", "double fork"],
)
def test_whoever_does_not_want_to_go_is_gone_with_all_below(simulated: Fallow, program: str) -> None:
    mark = f"FALLOW_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    name, value = mark.split("=")
    done = simulated("run", "--idle-timeout", "1s", *FAST, "--", *job(program), **{name: value})
    assert done.returncode == 124, done.stderr
    assert left_over(mark) == []
    assert simulated("run", "-n", "4", "--", "true").returncode == 0, "and so are their claims"


def test_the_exit_code_of_a_watched_job_is_its_own(simulated: Fallow) -> None:
    assert simulated("run", "--idle-timeout", "1h", "--", "sh", "-c", "exit 7").returncode == 7


def test_the_exit_code_comes_through_where_sigchld_was_ignored(simulated: Fallow) -> None:
    line = "trap '' CHLD; exec fallow run --idle-timeout 1h -- sh -c 'exit 7'"
    assert simulated.start_other("bash", "-c", line).wait(LIMIT_S) == 7


def test_a_signal_to_the_wrapper_reaches_the_job_as_without_it(simulated: Fallow) -> None:
    program = "trap 'echo got TERM; exit 9' TERM; echo up; while :; do sleep 0.1; done"
    watched = simulated.start("run", "--idle-timeout", "1h", "--", "sh", "-c", program)
    assert watched.stdout is not None
    assert watched.stdout.readline() == "up\n"
    watched.terminate()
    out, _ = watched.communicate(timeout=LIMIT_S)
    assert out == "got TERM\n"
    assert watched.returncode == 9


def test_when_the_wrapper_is_killed_the_job_goes_on_and_keeps_its_claim(simulated: Fallow) -> None:
    watched = simulated.start(
        "run", "--gpus", "0", "--idle-timeout", "1h", "--", "sh", "-c", "echo $$; read line; echo $line"
    )
    assert watched.stdout is not None
    assert watched.stdin is not None
    child = int(watched.stdout.readline())
    assert child != watched.pid
    watched.kill()
    watched.wait(LIMIT_S)
    assert simulated("pick", "--gpus", "0").returncode == 75
    watched.stdin.write("still here\n")
    watched.stdin.flush()
    assert watched.stdout.readline() == "still here\n"
    watched.communicate(timeout=LIMIT_S)
    assert simulated("pick", "--gpus", "0").returncode == 0


@pytest.mark.more
def test_stacks_are_in_a_file_that_the_message_names(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    program = "def waits_for_ever():\n    time.sleep(600)\nwaits_for_ever()\n"
    words = ("run", "--idle-timeout", "1s", "--dump-stacks", *FAST, "--", *job(program))
    done = simulated(*words, TMPDIR=str(tmp_path))
    assert done.returncode == 124
    found = re.search(r"the Python stacks of 1 process are in (\S+)", done.stderr)
    assert found, done.stderr
    assert "waits_for_ever" in pathlib.Path(found[1]).read_text()


def test_a_dry_run_with_a_timeout_runs_nothing(simulated: Fallow) -> None:
    done = simulated("run", "--dry-run", "--idle-timeout", "1s", *FAST, "--", "echo", "I RAN")
    assert (done.returncode, done.stdout) == (0, "")
    assert "would run on GPU" in done.stderr


@pytest.mark.more
def test_why_explains_a_stop_with_its_readings(simulated: Fallow) -> None:
    simulated("run", "--gpus", "2", "--idle-timeout", "1s", *FAST, "--", "sleep", "600")
    told = simulated("why", "2").stdout
    assert "'s job" in told
    assert "GPU 2 utilization: 0.0% on average" in told
    assert "ask the job to end with SIGTERM" in told
    assert "the memory of its GPUs is back" in told
    rows = json.loads(simulated("why", "--json", "2").stdout)["events"]
    assert {"verdict", "action", "outcome"} <= {row["kind"] for row in rows}
    pid = re.search(r"job (\d+)", told)
    assert pid
    assert "SIGTERM" in simulated("why", pid[1]).stdout
    assert "`fallow up` does not run, so it is not known since when" in simulated("why", "3").stdout
    assert "GPU 3 is free" in simulated("why", "3").stdout


@pytest.mark.more
def test_whoever_still_holds_a_card_after_the_stop_is_named(make_world, fallow: Fallow) -> None:  # noqa: ANN001
    from tests.standin import Process

    world = make_world(cards=1)
    watched = fallow.start("run", "--idle-timeout", "1s", *FAST, "--", "sleep", "600")
    assert watched.stderr is not None
    assert "will be stopped" in watched.stderr.readline()
    world[0].compute, world[0].memory_used = [Process(os.getpid(), 2**30)], 2**30
    _, err = watched.communicate(timeout=LIMIT_S)
    assert watched.returncode == 124
    assert f"GPU 0 is still held by pid {os.getpid()}" in err


SAVES = """
def save(*_):
    print("saved", flush=True)
signal.signal(signal.SIGUSR1, save)
time.sleep(600)
time.sleep(600)
"""


@pytest.mark.more
def test_a_command_that_catches_the_signal_of_the_warning_can_save_its_work(simulated: Fallow) -> None:
    options = ("--idle-timeout", "4s", *FAST, "--warn-signal", "usr1")
    done = simulated("run", *options, "--", *job(SAVES))
    sent = done.stderr.count("fallow: SIGUSR1 to 1 process\n")
    assert sent, done.stderr
    assert (done.returncode, done.stdout) == (124, "saved\n" * sent)


@pytest.mark.more
def test_a_protection_of_a_child_of_the_job_protects_the_job_as_long_as_it_lasts(simulated: Fallow) -> None:
    script = "sleep 600 & echo $!; wait"
    watched = simulated.start("run", "--gpus", "0", "--idle-timeout", "4s", *FAST, "--", "sh", "-c", script)
    assert watched.stderr is not None
    assert watched.stdout is not None
    assert "will be stopped" in watched.stderr.readline()
    child = f"pid:{watched.stdout.readline().strip()}"
    (placed,) = json.loads(simulated("protect", child, "--for", "1h", "--json").stdout)["protections"]
    assert "the job goes on" in watched.stderr.readline()
    assert watched.poll() is None
    assert simulated("protect", "--release", str(placed["id"])).returncode == 0
    watched.communicate(timeout=LIMIT_S)
    assert watched.returncode == 124


def test_processes_that_go_on_unwatched_are_told(simulated: Fallow) -> None:
    watched = simulated.start("run", "--idle-timeout", "1h", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & exit 6")
    assert watched.stderr is not None
    assert "1 more of the job go on, unwatched" in watched.stderr.readline()
    assert watched.wait(LIMIT_S) == 6
