"""Servers that can sleep are asked to: real servers that keep the documented contract of vLLM and ollama."""

import http.client
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.engine.park.parked_jobs import keep, parked, start_up
from tests.interfaces.cli.filled import wait_for_end
from tests.places import LIMIT_S
from tests.waiting import PROGRAM_S, end_group, until

pytestmark = pytest.mark.more

HERE = pathlib.Path(__file__).parent


class Server:
    """A running server, and the port that it listens on."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, wrong: pathlib.Path) -> None:
        self.process, self.port, self._wrong = process, port, wrong

    def ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        connection.request(method, path, None if body is None else json.dumps(body))
        answer: dict[str, object] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def go_wrong(self, how: str) -> None:
        self._wrong.write_text(how)


@pytest.fixture
def serve(simulated: Fallow, tmp_path: pathlib.Path) -> Iterator[Callable[[str], Server]]:
    """Start a `vllm` or an `ollama` on GPU 1."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str) -> Server:
        wrong, script = tmp_path / f"{name}.wrong", tmp_path / "bin" / name
        wrong.write_text("")
        script.parent.mkdir(exist_ok=True)
        shutil.copy(HERE / "sleeping_server.py", script)
        environ = {
            **simulated.environ,
            "FALLOW_TEST_ANSWERS": str(wrong),
            "FALLOW_TEST_GPU": "1",
            "FALLOW_TEST_PYTHON": sys.executable,
        }
        words = [name, str(script), "serve"]
        if name == "vllm":
            environ["CUDA_VISIBLE_DEVICES"] = "1"
        process = subprocess.Popen(
            words,
            executable=sys.executable,
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        return Server(process, int(process.stdout.readline()), wrong)

    yield start
    for process in started:
        end_group(process)


def test_a_vllm_is_put_to_sleep_and_not_judged_again_and_is_woken(
    simulated: Fallow, serve: Callable[[str], Server], tmp_path: pathlib.Path
) -> None:
    server = serve("vllm")
    up = start_up(simulated, tmp_path)
    assert "vLLM sleeps" in up.until("was parked")
    assert server.ask("GET", "/is_sleeping") == {"is_sleeping": True}
    (job,) = until(lambda: parked(simulated), pause_s=PROGRAM_S)
    assert (job["way"], job["where"], job["wake"]) == ("vllm", "vLLM sleeps", f"fallow wake pid:{server.process.pid}")
    assert "vLLM sleeps" in simulated("status", "-l", "1").stdout
    simulated("run", "--gpus", "0", "--", "sleep", "4")  # twice as long as the rule lets a job be idle
    keep(simulated, "1")
    woken = simulated("wake", "1")
    assert woken.returncode == 0, woken.stderr
    assert server.ask("GET", "/is_sleeping") == {"is_sleeping": False}
    up.until("was woken")
    assert len(up.told("(vllm) will be parked")) == 1, "it was warned again while it slept"


def test_an_ollama_is_asked_to_unload_its_models_and_wakes_at_the_next_request(
    simulated: Fallow, serve: Callable[[str], Server], tmp_path: pathlib.Path
) -> None:
    server = serve("ollama")
    up = start_up(simulated, tmp_path)
    assert "ollama has unloaded its models" in up.until("was parked")
    assert server.ask("GET", "/api/ps") == {"models": []}
    (job,) = until(lambda: parked(simulated), pause_s=PROGRAM_S)
    assert (job["way"], job["wake"]) == ("ollama", "the next request wakes it")
    keep(simulated, "1")
    server.ask("POST", "/api/generate", {"model": "llama3:8b", "prompt": "hello"})
    up.until("is not parked any more: it is awake")
    assert server.process.poll() is None


def test_a_vllm_without_its_development_mode_is_stopped_and_the_reason_is_kept(
    simulated: Fallow, serve: Callable[[str], Server], tmp_path: pathlib.Path
) -> None:
    server = serve("vllm")
    server.go_wrong("no development mode")
    up = start_up(simulated, tmp_path)
    assert "its GPU is simulated" in up.until("it was not parked")
    up.until("was stopped: idle")
    wait_for_end([server.process.pid])


def test_a_vllm_that_refuses_to_sleep_is_stopped_only_if_the_rule_says_so(
    simulated: Fallow, serve: Callable[[str], Server], tmp_path: pathlib.Path
) -> None:
    server = serve("vllm")
    server.go_wrong("refuses")
    up = start_up(simulated, tmp_path, '"park"')
    said = up.until("it was not parked", times=2)
    assert "it was asked to sleep and does not: the server answered 500" in said
    assert "not now" not in said + simulated("why", "1").stdout, "what it answers is for its user alone"
    assert server.process.poll() is None
    assert not up.told("stopping")


def test_a_job_that_could_not_be_woken_is_not_tried_again_at_once(
    simulated: Fallow, serve: Callable[[str], Server], tmp_path: pathlib.Path
) -> None:
    server = serve("vllm")
    up = start_up(simulated, tmp_path)
    up.until("was parked")
    server.go_wrong("refuses")
    assert "the server answered 500" in simulated("wake", "1").stderr
    again = simulated("wake", "1")
    assert again.returncode == 75
    assert "it can be tried again in" in again.stderr
    up.until("was not woken")


def test_a_dry_run_asks_no_server_to_sleep(
    simulated: Fallow, serve: Callable[[str], Server], tmp_path: pathlib.Path
) -> None:
    server = serve("vllm")
    start_up(simulated, tmp_path, '["park", "stop"]', "--dry-run")
    until(lambda: simulated("why", "1").stdout, lambda story: "would have it sleep" in story, pause_s=PROGRAM_S)
    assert server.ask("GET", "/is_sleeping") == {"is_sleeping": False}
