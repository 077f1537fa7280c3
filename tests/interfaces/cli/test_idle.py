"""`fallow idle`: 0 only for what is known to be idle, with a daemon and without."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.gpu import Holder
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import all_idle, idle_answers
from fallow.core.protections import OneProcess, OneUser
from fallow.core.unknown import NOT_ASKED
from fallow.core.value import replace
from fallow.engine.allocate.held_by import presences
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.engine.history.life import gpu_status
from tests.interfaces.cli.filled import Fill
from tests.length import examples
from tests.places import LIMIT_S, NO_DAEMON
from tests.standin import World
from tests.waiting import PROGRAM_S, until

WORKS = "while True: pass"


def test_free_gpus_are_idle_now_and_for_how_long_is_not_known_without_a_daemon(simulated: Fallow) -> None:
    assert simulated("idle").returncode == 0
    asked = simulated("idle", "--for", "1s")
    assert asked.returncode == 75
    assert "GPU 0: cannot be told: free; since when is not known" in asked.stdout


@pytest.mark.more
def test_the_daemon_knows_for_how_long(simulated: Fallow) -> None:
    running = Fill(simulated.start("up"))
    running.until("up, ")
    until(lambda: simulated("idle", "--for", "2s").returncode == 0, pause_s=PROGRAM_S)
    assert simulated("idle", "--for", "30d").returncode == 1
    assert simulated("idle", "--for", "2s", **NO_DAEMON).returncode == 75


def test_a_job_that_began_after_the_daemon_looked_is_seen(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    config = tmp_path / "fallow.toml"
    config.write_text('[machine]\nevery = "1s"\n')
    Fill(simulated.start("up", "--config", str(config))).until("up, ")
    asked = 0
    for words in (("1",), ("mine",)):
        until(lambda words=words: simulated("idle", *words).returncode == 0, pause_s=PROGRAM_S)
        with subprocess.Popen(["sleep", "1000"], env=simulated.on("1")) as job:
            try:
                asked += simulated("idle", *words).returncode
            finally:
                job.kill()
    assert asked == 2


def answer_about(subject: OneProcess | OneUser, *pids: int) -> tuple[bool | None, str]:
    """The answer for a GPU that has been idle for 8m8s, and that these processes of ada hold."""
    proc = Proc()
    held = tuple(Holder(pid, NOT_ASKED, user="ada") for pid in pids)
    gpu = replace(gpu_status(2, Activity.IDLE), for_s=488.0, holders=held, claim=None)
    status = Status("box", False, 1000.0, (gpu,))
    (answer,) = idle_answers(status, 300.0, 1000.0, presences(subject, status, proc))
    return answer.idle, answer.because


def test_the_youngest_process_of_who_is_asked_about_decides_and_an_age_that_is_not_known_is_no_yes() -> None:
    with subprocess.Popen(["sleep", "1000"]) as job:
        try:
            for subject in (OneProcess(job.pid, 0), OneProcess(os.getpid(), 0), OneUser("ada")):
                idle, because = answer_about(subject, 1, job.pid)
                assert idle is False
                assert because.startswith(f"idle for 8m8s, and pid {job.pid} is there for ")
        finally:
            job.kill()
    gone = f"idle for 8m8s, and for how long pid {job.pid} is there is not known"
    assert answer_about(OneUser("ada"), 1, job.pid) == (None, gone)


def test_a_card_that_is_lost_is_no_yes(fallow: Fallow, world: World) -> None:
    world.fault("*", card=3, error=15)
    asked = fallow("idle")
    assert asked.returncode == 75
    assert "GPU 3: cannot be told" in asked.stdout


HOLDS = """
import os, signal, subprocess, sys
mine = {name: text for name, text in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=mine)
signal.pause()
"""


@pytest.fixture
def holder(simulated: Fallow) -> Iterator[Callable[[str], None]]:
    """Start a job that holds a GPU and does nothing on it, with a child that has no GPU and does something."""
    started: list[subprocess.Popen[bytes]] = []

    def start(child: str) -> None:
        words = [sys.executable, "-c", HOLDS, child]
        started.append(subprocess.Popen(words, env=simulated.on("2"), start_new_session=True))
        until(lambda: simulated("idle", "2", "--json").stdout, lambda text: '"idle": true' in text, pause_s=PROGRAM_S)

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)


def told_in_time(fallow: Fallow, *words: str) -> subprocess.CompletedProcess[str]:
    """The answer, as soon as a machine that may be busy gives one."""
    return until(
        lambda: fallow("idle", *words), lambda done: "not told in time" not in done.stdout, pause_s=PROGRAM_S
    )


@pytest.mark.more
def test_a_job_whose_conditions_say_no_is_a_yes_and_one_that_cannot_be_told_is_75(
    simulated: Fallow, holder: Callable[[str], None]
) -> None:
    holder("import signal; signal.pause()")
    assert told_in_time(simulated, "2", "--unless", "cpu:50", "--unless", "jupyter").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    asked = simulated("idle", "2", "--unless", "cpu:50", "--unless", f"http:http://127.0.0.1:{port}/")
    assert asked.returncode == 75
    assert f"http:http://127.0.0.1:{port}/ cannot be told" in asked.stdout


ACTIVITIES = st.sampled_from(list(Activity))
GPUS = st.lists(st.tuples(ACTIVITIES, st.one_of(st.none(), st.floats(0, 1e6))), max_size=6)


@settings(max_examples=examples(600))
@given(GPUS, st.floats(0, 1e6), st.floats(-10, 100))
def test_a_yes_needs_every_gpu_witnessed_idle_for_so_long_by_a_look_that_is_recent(
    drawn: list[tuple[Activity, float | None]], for_s: float, late_s: float
) -> None:
    gpus = tuple(replace(gpu_status(index, doing), for_s=seen) for index, (doing, seen) in enumerate(drawn))
    together = all_idle(idle_answers(Status("box", False, 1000.0, gpus), for_s, 1000.0 + late_s))
    quiet = (Activity.FREE, Activity.FILLED, Activity.IDLE)
    surely = [
        late_s <= 30 and each.activity in quiet and (for_s == 0 or (each.for_s is not None and each.for_s >= for_s))
        for each in gpus
    ]
    assert (together is True) == (bool(surely) and all(surely))
    if together is False:
        assert any(each.activity not in (*quiet, Activity.UNKNOWN) or (each.for_s or 0) < for_s for each in gpus)


def test_one_who_holds_no_gpu_is_idle_and_one_who_works_is_not(simulated: Fallow) -> None:
    with subprocess.Popen([sys.executable, "-c", WORKS], env=simulated.on("2")) as job:
        try:
            until(lambda: simulated("idle", f"pid:{job.pid}").returncode == 1, pause_s=PROGRAM_S)
            asked = simulated("idle", "mine")
            assert asked.returncode == 1
            assert [line[:5] for line in asked.stdout.splitlines()] == ["GPU 2"]
            assert simulated("idle", f"pid:{os.getpid()}").returncode == 1  # it is below us
            assert simulated("idle", "user:nobody").stdout == "user:nobody: idle: holds no GPU\n"
        finally:
            job.kill()


@pytest.mark.parametrize("subject", ["container:vllm", "unit:ollama", "notebook:train.ipynb"])
def test_a_name_that_is_nowhere_may_be_mistyped_and_is_no_yes(simulated: Fallow, subject: str) -> None:
    asked = simulated("idle", subject)
    assert (asked.returncode, asked.stdout) == (75, f"{subject}: cannot be told: holds no GPU\n")


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        ("user:nobdy", "there is no user 'nobdy' on this machine; did you mean nobody?"),
        ("pid:4194999", "there is no process 4194999"),
        ("77", "there is no GPU '77' here"),
        ("usr:nobody", "did you mean user?"),
    ],
)
def test_nobody_who_is_mistyped_is_idle(simulated: Fallow, subject: str, sentence: str) -> None:
    asked = simulated("idle", subject)
    assert asked.returncode == 2
    assert sentence in asked.stderr


def test_a_card_whose_holders_are_hidden_may_be_anybodys(fallow: Fallow, world: World) -> None:
    world.fault("nvmlDeviceGetComputeRunningProcesses_v3", card=1, error=999)
    world.fault("nvmlDeviceGetGraphicsRunningProcesses_v3", card=1, error=999)
    asked = fallow("idle", "user:nobody")
    assert asked.returncode == 75
    assert asked.stdout.startswith("GPU 1: cannot be told: ")
