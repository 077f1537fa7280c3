"""Idle rules with `unless` of a real `fallow up`, on simulated GPUs, with a real Jupyter server and real processes.

In each test one job that must be stopped and one that must not are judged side by side: when the first is gone, the
second was seen for just as long.
"""

import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.conftest import LIMIT_S, Fallow
from tests.engine.owners.conftest import StartUp
from tests.places import PYTHON
from tests.real_owners import Jupyter, eventually

ON_THE_CPU = """
import os, subprocess, sys
mine = {name: text for name, text in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
subprocess.run([sys.executable, "-c", "while True: pass"], env=mine)
"""
Hold = Callable[..., int]


@pytest.fixture
def hold(simulated: Fallow) -> Hold:
    """Start a job of its own that has claimed a GPU; its pid, which is that of its first process."""

    def start(gpu: int, program: str = "import signal; signal.pause()", *more: str) -> int:
        words = (sys.executable, "-c", program, *more)
        return simulated.start("run", "--gpus", str(gpu), "--", *words).pid

    return start


def run_cell(jupyter: Jupyter, kernel: str, code: str) -> None:
    """Have a kernel run a cell that does not end, and wait until its server says so."""
    client = BlockingKernelClient(connection_file=str(jupyter.runtime / f"kernel-{kernel}.json"))
    client.load_connection_file()
    client.hb_channel.time_to_dead = LIMIT_S  # type: ignore[attr-defined]  # a busy machine answers late
    client.start_channels()
    try:
        client.wait_for_ready(timeout=LIMIT_S)
        client.execute(code)
        eventually(lambda: jupyter.ask("GET", f"api/kernels/{kernel}")["execution_state"] == "busy", "a busy kernel")
    finally:
        client.stop_channels()


@pytest.mark.more
@pytest.mark.engine
def test_a_notebook_that_computes_on_the_cpu_is_left_alone_and_an_idle_one_is_ended(
    simulated: Fallow, up: StartUp, jupyter: Jupyter
) -> None:
    works, works_pid = jupyter.open("works.ipynb")
    idle, idle_pid = jupyter.open("idle.ipynb", gpu="1")
    run_cell(jupyter, works, ON_THE_CPU)
    running = up('unless = ["jupyter:1s"]')
    gone = running.until(f"job {idle_pid} ({PYTHON}), notebook was stopped")
    assert "its Jupyter server shut the kernel down" in gone
    eventually(lambda: jupyter.kernels() == [works], "the end of the kernel")
    assert jupyter.pid_of(works) == works_pid
    assert running.told(f"job {works_pid} ({PYTHON}), notebook will be stopped") == []
    assert jupyter.pid_of(idle) is None


@pytest.mark.engine
@pytest.mark.more
def test_a_notebook_that_was_active_a_moment_ago_is_left_alone_and_a_job_that_is_no_kernel_is_not_concerned(
    simulated: Fallow, up: StartUp, jupyter: Jupyter, hold: Hold
) -> None:
    kernel, pid = jupyter.open("typed.ipynb")
    plain = hold(1)
    running = up('unless = ["jupyter:1h"]')
    running.until(f"job {plain} ({PYTHON}) was stopped")
    assert jupyter.pid_of(kernel) == pid
    assert running.told(f"job {pid} ({PYTHON}), notebook will be stopped") == []


class Sometimes(BaseHTTPRequestHandler):
    """A server that is told what to answer."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.more
def test_a_server_keeps_a_job_while_it_is_busy_and_while_it_fails_and_why_and_status_show_that(
    simulated: Fallow, up: StartUp, hold: Hold
) -> None:
    job = hold(0)

    class Told(Sometimes):
        status = 500

    with HTTPServer(("127.0.0.1", 0), Told) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            condition = f"http:http://127.0.0.1:{server.server_port}/busy"
            running = up(f'unless = ["{condition}"]')
            running.until(f"job {job} ({PYTHON}) is not counted as idle: {condition} cannot be told")
            eventually(lambda: f"paused: {condition} cannot be told" in simulated("why", "0").stdout, "why")
            told = json.loads(simulated("status", "--json", "0").stdout)["gpus"][0]
            assert (
                told["paused"] == f"{condition} cannot be told: the server at port {server.server_port} answered 500"
            )
            assert told["stops_at"] is None
            rule = json.loads(simulated("why", "0", "--json").stdout)["rules"][0]
            assert condition in rule["paused"]
            Told.status = 200
            eventually(lambda: "not idle now" in simulated("why", "0").stdout, "that it is in use")
            Told.status = 404
            running.until(f"job {job} ({PYTHON}) was stopped")
            assert len(running.told("is not counted as idle")) == 1, "it is said once"
        finally:
            server.shutdown()
