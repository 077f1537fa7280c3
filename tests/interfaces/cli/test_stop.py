"""`fallow stop` on simulated GPUs, with real processes: what it stops, what it leaves, what it says."""

import json
import os
import pathlib
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.interfaces.cli.stopped import (
    ALONE,
    BUSY,
    DEAF,
    PARENT,
    SLEEPER,
    STARTS_AGAIN,
    Job,
    is_running,
    on_terminal,
)
from tests.places import LIMIT_S, ME
from tests.waiting import until

Start = Callable[..., Job]
SAVES_BY_ANOTHER_PROGRAM = """
import os, signal, subprocess, time
signal.signal(signal.SIGTERM, lambda *_: subprocess.Popen(["sleep", "1000"]))
print("ready", flush=True)
while True:
    time.sleep(1000)
"""


@pytest.fixture
def start(simulated: Fallow) -> Iterator[Start]:
    """Start a job on a GPU."""
    started: list[Job] = []

    def make(gpu: int, script: str = SLEEPER, **variables: str) -> Job:
        started.append(Job({**simulated.on(str(gpu)), **variables}, script))
        return started[-1]

    yield make
    for job in started:
        job.end()


@pytest.fixture
def config(simulated: Fallow) -> Callable[[str], str]:
    """Write the config that `fallow stop` reads."""

    def write(text: str) -> str:
        file = simulated.home / "fallow.toml"
        file.write_text(text)
        file.chmod(0o600)
        simulated.environ["FALLOW_CONFIG"] = str(file)
        return str(file)

    return write


def test_a_job_is_stopped_with_all_below_it_and_its_memory_is_seen_to_be_free(
    simulated: Fallow, start: Start
) -> None:
    job, other = start(1, PARENT), start(2)
    done = simulated.process("stop", "1", "--yes")
    assert done.returncode == 0, done.stderr
    assert not is_running(int(job.said))
    assert job.ended_by() == signal.SIGTERM
    assert f"stopped {ME}'s job {job.pid} (python" in done.stdout
    assert "GPU 1: " in done.stdout
    assert "MiB are free again" in done.stdout
    assert other.lives, "what was started together and is on another GPU"


def test_json_has_each_job_and_each_gpu(simulated: Fallow, start: Start) -> None:
    job = start(3)
    facts = json.loads(simulated("stop", f"pid:{job.pid}", "--yes", "--json").stdout)
    (told,), (gpu,) = facts["jobs"], facts["gpus"]
    assert (told["pids"], told["gpus"], told["outcome"]) == ([job.pid], ["3"], "stopped")
    assert (told["owner"]["kind"], told["came_back"], told["reason"], told["idle_s"]) == (
        "process",
        False,
        None,
        None,
    )
    assert (gpu["gpu"], gpu["unseen_bytes"], gpu["freed_bytes"] > 0, told["memory_bytes"] > 0) == ("3", 0, True, True)
    assert job.ended_by() == signal.SIGTERM


def test_one_that_ignores_the_signal_is_killed_after_the_grace(simulated: Fallow, start: Start) -> None:
    job = start(1, DEAF)
    done = simulated("stop", "1", "--yes", "--grace", "0.5s")
    assert (done.returncode, job.ended_by()) == (0, signal.SIGKILL), done.stderr
    assert "killing what is left" in done.stderr


def test_a_dry_run_says_what_would_be_done_and_does_nothing(simulated: Fallow, start: Start) -> None:
    job = start(1)
    done = simulated("stop", "1", "--dry-run")
    assert done.returncode == 0
    assert "GPU 1; " in done.stdout
    assert "would send SIGTERM to every process of the job" in done.stdout
    facts = json.loads(simulated("stop", "1", "--dry-run", "--json").stdout)
    assert (facts["dry_run"], facts["jobs"][0]["outcome"]) == (True, "untouched")
    assert job.lives


def test_it_needs_a_yes_and_on_a_terminal_it_lists_and_asks_for_it(simulated: Fallow, start: Start) -> None:
    job = start(1)
    done = simulated("stop", "1")
    assert (done.returncode, "add --yes" in done.stderr) == (2, True)
    for answer, code in (("n\n", 1), ("\n", 1), ("what?\n", 1), ("\x04", 1), ("y\n", 0)):
        assert job.lives
        with on_terminal(simulated, "1") as asked:
            shown = asked.until("[y/N] ")
            assert f"job {job.pid} (python" in shown
            assert "would send SIGTERM" in shown
            asked.type(answer)
            assert (asked.ended(), "nothing was stopped" in asked.shown) == (code, code == 1)
    assert job.ended_by() == signal.SIGTERM


def test_ctrl_c_in_the_grace_says_what_was_done(simulated: Fallow, start: Start) -> None:
    job = start(1, DEAF)
    running = Fill(simulated.start("stop", "1", "--yes", "--grace", "1h"))
    running.until("stopping ")
    running.process.send_signal(signal.SIGINT)
    assert "was asked to end, and may still be there" in running.until("interrupted: ")
    assert running.process.wait(LIMIT_S) == -signal.SIGINT
    assert job.lives


def test_a_protected_job_is_left_alone_and_the_sentence_says_how_it_is_released(
    simulated: Fallow, start: Start
) -> None:
    kept, other = start(1, ALONE + SLEEPER), start(2, ALONE + SLEEPER)
    placed = json.loads(simulated("protect", "1", "--for", "1h", "--json").stdout)["protections"][0]
    done = simulated("stop", "1", "--yes")
    assert done.returncode == 1
    assert f"protects GPU 1 (protection {placed['id']})" in done.stdout
    assert f"fallow protect --release {placed['id']}" in done.stdout
    facts = json.loads(simulated("stop", "1", "2", "--yes", "--json").stdout)
    told = {job["gpus"][0]: (job["outcome"], job["reason"]) for job in facts["jobs"]}
    assert told == {"1": ("left", "protected"), "2": ("stopped", None)}
    assert (kept.lives, other.lives) == (True, False)


def test_a_protection_that_is_placed_in_the_grace_keeps_it_from_being_killed(simulated: Fallow, start: Start) -> None:
    job = start(1, DEAF)
    running = Fill(simulated.start("stop", "1", "--yes", "--grace", "1h"), on_stdout=True)
    errors = Fill(running.process)
    errors.until("stopping ")
    assert simulated("protect", f"pid:{job.pid}", "--for", "1h").returncode == 0
    assert "fallow protect --release" in running.until("left alone: ")
    assert running.process.wait(LIMIT_S) == 1
    assert job.lives


def test_a_job_that_opted_out_is_left_alone(simulated: Fallow, start: Start) -> None:
    job = start(1, ALONE + SLEEPER, FALLOW_PROTECT="1")
    done = simulated("stop", "1", "--yes")
    assert done.returncode == 1
    assert f"FALLOW_PROTECT=1; end it yourself, with: kill {job.pid}" in done.stdout
    assert job.lives


def test_what_the_config_protects_is_left_alone_and_a_config_with_mistakes_stops_nothing(
    simulated: Fallow, start: Start, config: Callable[[str], str]
) -> None:
    job = start(2, ALONE + SLEEPER)
    config(f"[protect]\ngroups = ['{os.getgid()}']\n")
    done = simulated("stop", "2", "--yes")
    assert (done.returncode, "that is in [protect] of the config" in done.stdout) == (1, True)
    config("[protect]\nuser = ['x']\n")
    assert simulated("stop", "2", "--yes").returncode == 78
    assert job.lives


def test_a_process_that_the_config_protects_and_that_came_during_the_grace_is_not_killed(
    simulated: Fallow, start: Start, config: Callable[[str], str]
) -> None:
    job = start(1, ALONE + SAVES_BY_ANOTHER_PROGRAM)
    config("[protect]\ncommands = ['sleep']\n")
    done = simulated("stop", "1", "--yes", "--grace", "1s")
    assert done.returncode == 1, done
    assert "runs sleep, and [protect] commands has 'sleep'" in " ".join(done.stdout.split())
    assert job.lives


def test_what_the_config_of_the_running_daemon_protects_is_left_alone(simulated: Fallow, start: Start) -> None:
    job = start(1, ALONE + SLEEPER)
    simulated.up("[page]\nenabled = false\n[protect]\ncommands = ['python*']\n").until("up, ")
    until(lambda: simulated("stop", "1", "--dry-run"), lambda done: "not known" not in done.stderr, pause_s=0.2)
    done = simulated("stop", "1", "--yes")
    assert (done.returncode, "that is in [protect] of the config" in done.stdout) == (1, True), done
    assert job.lives


def test_a_daemon_that_cannot_be_asked_is_reported_and_what_is_known_binds(
    simulated: Fallow, start: Start, config: Callable[[str], str], tmp_path: pathlib.Path
) -> None:
    job = start(1, ALONE + SLEEPER)
    config(f"[protect]\nusers = ['{ME}']\n")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "socket"))
        silent.listen()
        places = {"FALLOW_SOCKET": str(tmp_path / "socket"), "FALLOW_DAEMON_TIMEOUT": "1s"}
        done = simulated("stop", "1", "--yes", **places)
    assert (done.returncode, "that is in [protect] of the config" in done.stdout) == (1, True), done
    assert "protects by its config is not known: " in done.stderr
    assert job.lives


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("0",), 1, "nobody is on GPU 0"),
        (("pid:999999999",), 1, "there is no process 999999999"),
        (("pid:1",), 1, "uses no GPU"),
        (("container:vllm",), 1, "no container vllm is on a GPU"),
        (("user:nobody",), 1, "nobody has no job on a GPU"),
        (("user:nosuch",), 2, "there is no user 'nosuch' on this machine"),
        (("1", "--grace", "soon"), 2, "is not a duration"),
        ((), 2, "SUBJECT is missing"),
    ],
)
def test_what_is_not_there_is_1_and_nonsense_is_2(
    simulated: Fallow, words: tuple[str, ...], code: int, says: str
) -> None:
    done = simulated("stop", *words, "--yes")
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert done.stderr.count("\n") == 1


def test_one_name_that_is_nobodys_and_what_is_not_known_to_be_idle_stop_nothing(
    simulated: Fallow, start: Start
) -> None:
    job = start(1)
    assert simulated("stop", "1", "0", "--yes").returncode == 1
    done = simulated("stop", "all", "--idle", "--yes")
    assert done.returncode == 1
    assert "whether it is idle is not known: no `fallow up` runs" in done.stdout
    assert job.lives


def test_what_comes_back_is_said_and_is_no_success(simulated: Fallow, start: Start) -> None:
    starter = start(0, STARTS_AGAIN, CUDA_VISIBLE_DEVICES="")
    done = simulated("stop", f"pid:{starter.said}", "--yes")
    assert done.returncode == 1, done.stderr
    assert "it came back, started again by" in done.stdout
    assert "free again" not in done.stdout


def test_a_filler_is_not_stopped_because_it_leaves_by_itself(simulated: Fallow) -> None:
    filling = Fill(
        simulated.start("fill", "--users", "ignore", "--gpus", "1", "--idle-for", "0", "--", "sleep", "1000")
    )
    filling.until("filling it")
    done = until(lambda: simulated("stop", "1", "--yes"), lambda done: "filler" in done.stderr, pause_s=0.5)
    assert done.returncode == 1
    assert done.stderr == (
        "fallow: on GPU 1 is only a filler of fallow, which leaves as soon as somebody needs the GPU; to end it, "
        "end the `fallow fill` that runs it, or disable it in the config of `fallow up` and reload\n"
    )
    assert filling.process.poll() is None


@pytest.mark.more
def test_with_a_daemon_the_idle_job_is_stopped_and_the_busy_one_is_not(simulated: Fallow, start: Start) -> None:
    running = Fill(simulated.start("up"))
    running.until("up, ")
    idle, busy = start(1, ALONE + SLEEPER), start(2, ALONE + BUSY)
    done = until(
        lambda: simulated("stop", "1-2", "--idle", "--yes"), lambda done: "stopped " in done.stdout, pause_s=1.0
    )
    out = done.stdout
    assert (done.returncode, f"stopped {ME}'s job {idle.pid}" in out) == (0, True), out
    assert "it is not idle: GPU 2 is busy" in out
    assert busy.lives
