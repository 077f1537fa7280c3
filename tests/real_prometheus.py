"""A real Prometheus on loopback, and exporters that say what a test wants them to."""

import json
import pathlib
import shutil
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.places import LIMIT_S
from tests.ports import free_ports
from tests.waiting import until

SCRAPE_S = 1.0


class Exporter:
    """An exporter of metrics on a port of loopback. What it says can be changed while it is scraped."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.thaws = threading.Event()
        """While it is not set, a scrape gets no answer."""
        self.thaws.set()
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                exporter.thaws.wait(LIMIT_S)
                body = exporter.text.encode()
                with suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Type", "text/plain; version=0.0.4")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._handler = Handler
        self._server = self._serve(0)
        self.port: int = self._server.server_address[1]

    @property
    def address(self) -> str:
        """Return its host and port."""
        return f"127.0.0.1:{self.port}"

    def vanish(self) -> None:
        """Close its port."""
        self.thaws.set()
        self._server.shutdown()
        self._server.server_close()

    close = vanish

    def come_back(self) -> None:
        """Open its port again."""
        self._server = self._serve(self.port)

    def _serve(self, port: int) -> ThreadingHTTPServer:
        class Server(ThreadingHTTPServer):
            allow_reuse_address = True
            daemon_threads = True
            block_on_close = False

        server = Server(("127.0.0.1", port), self._handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server


class Prometheus:
    """A Prometheus that scrapes some exporters every second. It must be closed."""

    def __init__(
        self, home: pathlib.Path, targets: Mapping[str, Sequence[str]], labels: Mapping[str, str] | None = None
    ) -> None:
        """`targets` are addresses by the name of their job; `labels` are what Prometheus says of all of them."""
        program = shutil.which("prometheus")
        if program is None:
            pytest.skip("prometheus is not installed; scripts/engines prometheus installs it")
        home.mkdir()
        self._home = home
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        every = f"{SCRAPE_S * 1000:.0f}ms"
        config = {
            "global": {"scrape_interval": every, "scrape_timeout": every},
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(addresses), "labels": dict(labels or {})}]}
                for job, addresses in targets.items()
            ],
        }
        (home / "prometheus.yml").write_text(json.dumps(config))  # which is YAML, too
        self._command = [
            str(program),
            f"--config.file={home / 'prometheus.yml'}",
            f"--storage.tsdb.path={home / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(self._is_ready, pause_s=0.05)

    def stop(self) -> None:
        """Stop it; what it has stored stays."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(LIMIT_S)
            finally:
                self._process.kill()
                self._process.wait(LIMIT_S)
            self._process = None

    close = stop

    def found(self, query: str) -> list[dict[str, Any]]:
        """Return what a query finds now."""
        words = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{words}", timeout=LIMIT_S) as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())["data"]["result"]
        return found

    def scrapes(self, job: str, least: int, window: str = "5m") -> None:
        """Wait until each exporter of a job was scraped so often."""
        until(
            lambda: self.found(f'min(sum_over_time(up{{job="{job}"}}[{window}]))'),
            lambda found: bool(found) and float(found[0]["value"][1]) >= least,
            pause_s=0.1,
        )

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._home / "log").read_text()
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=LIMIT_S) as answer:
            return bool(answer.status == 200)
        return False


def metrics(*lines: tuple[str, Mapping[str, str], float | str]) -> str:
    """Return metrics in the text format: name, labels, value."""
    made = []
    for name, labels, number in lines:
        words = ",".join(f'{label}="{text}"' for label, text in labels.items())
        made.append(f"{name}{{{words}}} {number}\n")
    return "".join(made)


def dcgm_gpu(host: str, index: int, load: float | str, name: str = "DCGM_FI_DEV_GPU_UTIL", **more: str) -> str:
    """Return what dcgm-exporter says of a GPU's load."""
    about = {"gpu": str(index), "UUID": f"GPU-{host}-{index}", "Hostname": host, "modelName": "NVIDIA H100", **more}
    return metrics((name, about, load))


def profiled_gpu(host: str, index: int, load: float, **more: str) -> str:
    """Return what dcgm-exporter says of a GPU's load, in per cent, where profiling is on."""
    engine = dcgm_gpu(host, index, load / 100, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", **more)
    return dcgm_gpu(host, index, load, **more) + engine
