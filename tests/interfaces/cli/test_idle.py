"""`fallow idle`: 0 only for what is known to be idle, with a daemon and without."""

import json
import os
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.activity import Activity
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Holder
from fallow.core.gpu_status import Status
from fallow.core.idle_answer import all_idle, idle_answers
from fallow.core.protections import OneProcess, OneUser
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import replace
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.holding import held_by, is_doubtful, presences
from fallow.engine.answers.idle import ask_idle
from fallow.engine.machine.world import World as Machine
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.engine.history.life import gpu_status
from tests.places import OFTEN
from tests.standin import Process, World
from tests.waiting import PROGRAM_S, until


def asked(fallow: Fallow, *words: str) -> bool | None:
    """The answer of `fallow idle`."""
    return {0: True, 1: False, 75: None}[fallow("idle", *words).returncode]


def test_free_gpus_are_idle_now_and_for_how_long_is_not_known_without_a_daemon(simulated: Fallow) -> None:
    assert simulated("idle").returncode == 0
    later = simulated("idle", "--for", "1s")
    assert later.returncode == 75
    assert "GPU 0: cannot be told: free; since when is not known" in later.stdout


@pytest.mark.more
def test_the_daemon_knows_for_how_long_and_a_job_that_began_since_it_looked_is_seen(
    simulated: Fallow,
) -> None:
    simulated.up(OFTEN).until("up, ")
    until(lambda: simulated("idle", "1", "--for", "1s").returncode == 0, pause_s=PROGRAM_S)
    assert simulated("idle", "1", "--for", "30d").returncode == 1
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("1")) as job:
        try:
            assert simulated("idle", "1").returncode == 1
        finally:
            job.kill()


def test_one_gpu_in_use_is_enough_for_a_no_also_about_who_uses_it(world: World, fallow: Fallow) -> None:
    world[2].compute, world[2].utilization = [Process(os.getpid(), 2**30)], 90
    told = json.loads(fallow("idle", "0-3", "--json").stdout)
    assert told["idle"] is False
    assert [each["idle"] for each in told["gpus"]] == [True, True, False, True]
    mine = fallow("idle", "mine")
    assert (mine.returncode, [line[:5] for line in mine.stdout.splitlines()]) == (1, ["GPU 2"])
    assert asked(fallow, "0,1,3") is True
    assert asked(fallow, f"pid:{os.getppid()}") is False, "it is below that one"
    assert asked(fallow, "user:nobody") is True


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


def test_who_may_hold_a_gpu_is_not_known_to_hold_it() -> None:
    free = replace(gpu_status(2, Activity.IDLE), holders=(), claim=None)
    for unknown in ({"holders": Unknown("hidden")}, {"claim": Unknown("its folder cannot be read")}):
        gpu = replace(free, **unknown)
        assert held_by(OneUser("ada"), Status("box", False, 1.0, (free, gpu)), Proc()).gpus == (gpu,)
        assert is_doubtful(OneUser("ada"), gpu, Proc())


def test_a_lost_card_and_one_whose_holders_are_hidden_are_no_yes(fallow: Fallow, world: World) -> None:
    world.fault("nvmlDeviceGetComputeRunningProcesses_v3", card=1, error=999)
    world.fault("nvmlDeviceGetGraphicsRunningProcesses_v3", card=1, error=999)
    hidden = fallow("idle", "user:nobody")
    assert (hidden.returncode, hidden.stdout[:30]) == (75, "GPU 1: cannot be told: its pro")
    world[2].compute, world[2].memory_used = [Process(4_000_000, 2**30)], 2**30
    unseen = fallow("idle", "user:nobody", "--json")
    assert [each["idle"] for each in json.loads(unseen.stdout)["gpus"]] == [None, None], (
        "whose pid that is is unknown"
    )
    world.fault("*", card=3, error=15)
    lost = fallow("idle")
    assert lost.returncode == 75
    assert "GPU 3: cannot be told" in lost.stdout


def test_a_driver_that_never_starts_is_69(fallow: Fallow, world: World) -> None:
    world.fault("nvmlInit", never=True)
    assert fallow.process("idle", FALLOW_DRIVER_TIMEOUT="0.02").returncode == 69


class Busy(BaseHTTPRequestHandler):
    """Answers 200 to /busy, and 404 to all else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/busy" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_condition_that_holds_is_a_no_and_one_that_cannot_be_told_is_no_yes(world: World, fallow: Fallow) -> None:
    world[2].compute, world[2].memory_used = [Process(os.getpid(), 2**30)], 2**30
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"http:http://127.0.0.1:{listener.getsockname()[1]}/"
    with HTTPServer(("127.0.0.1", 0), Busy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http:http://127.0.0.1:{server.server_port}"
        for subject in ("0", "2", "pid:1"):
            assert asked(fallow, subject, "--unless", f"{url}/busy") is False
        assert asked(fallow, "2", "--unless", f"{url}/quiet") is True
        assert asked(fallow, "2", "--unless", f"{url}/quiet", "--unless", closed) is None
        assert asked(fallow, "user:nobody", "--unless", f"{url}/quiet") is None, "conditions are about processes"
        server.shutdown()


ACTIVITIES = st.sampled_from(list(Activity))
GPUS = st.lists(st.tuples(ACTIVITIES, st.one_of(st.none(), st.floats(0, 1e6))), max_size=6)


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


def test_a_name_that_is_nowhere_may_be_mistyped_and_is_no_yes(simulated: Fallow) -> None:
    for subject in ("container:vllm", "unit:ollama", "notebook:train.ipynb"):
        done = simulated("idle", subject)
        assert (done.returncode, done.stdout) == (75, f"{subject}: cannot be told: holds no GPU\n")


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
    with pytest.raises(WrongUsage) as refused:
        ask_idle(Asker(Machine(simulated.environ), print, print), subject, 0.0, ())
    assert sentence in str(refused.value)


def test_what_makes_no_sense_is_2(simulated: Fallow) -> None:
    for words in (("--for", "soon"), ("--unless", "cpu:x"), ("9",)):
        assert simulated("idle", *words).returncode == 2
