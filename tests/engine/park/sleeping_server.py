"""A server as vLLM and ollama are from outside: their documented requests, and processes on a simulated GPU.

It is started as `vllm … serve` or `ollama … serve`. The file that FALLOW_TEST_ANSWERS names tells what it
does wrong: `no development mode`, `refuses`, or nothing.
"""

import json
import os
import pathlib
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WRONG = pathlib.Path(os.environ["FALLOW_TEST_ANSWERS"])
IS_VLLM = "vllm" in sys.argv[0]


class State:
    """What it has on the GPU."""

    sleeps = False
    runner: "subprocess.Popen[bytes] | None" = None


def load() -> None:
    """Start the process that holds the GPU for an ollama."""
    words = ["ollama", "-c", "import time; time.sleep(1000)", "runner"]
    gpu = {"CUDA_VISIBLE_DEVICES": os.environ["FALLOW_TEST_GPU"]}
    State.runner = subprocess.Popen(words, executable=os.environ["FALLOW_TEST_PYTHON"], env={**os.environ, **gpu})


class Handler(BaseHTTPRequestHandler):
    """Answers as the servers' documentation says."""

    def do_GET(self) -> None:
        if self.path == "/is_sleeping" and IS_VLLM and WRONG.read_text() != "no development mode":
            self._answer(200, {"is_sleeping": State.sleeps})
        elif self.path == "/api/ps" and not IS_VLLM:
            there = State.runner is not None and State.runner.poll() is None
            self._answer(200, {"models": [{"name": "llama3:8b", "model": "llama3:8b"}] if there else []})
        else:
            self._answer(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if WRONG.read_text() == "refuses":
            self._answer(500, {"error": "not now"})
        elif self.path == "/sleep?level=1" and IS_VLLM:
            State.sleeps = True
            self._answer(200, {})
        elif self.path == "/wake_up" and IS_VLLM:
            State.sleeps = False
            self._answer(200, {})
        elif self.path == "/api/generate" and not IS_VLLM:
            self._generate(json.loads(body))
        else:
            self._answer(404, {"detail": "Not Found"})

    def _generate(self, asked: dict[str, object]) -> None:
        if asked.get("keep_alive") == 0 and not asked.get("prompt"):
            if State.runner is not None:
                State.runner.kill()
                State.runner.wait()
            self._answer(200, {"model": asked["model"], "done": True, "done_reason": "unload"})
        else:
            load()
            self._answer(200, {"model": asked["model"], "done": True, "done_reason": "load"})

    def _answer(self, code: int, facts: dict[str, object]) -> None:
        raw = json.dumps(facts).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if not IS_VLLM:
        load()
    print(server.server_port, flush=True)
    server.serve_forever()


main()
