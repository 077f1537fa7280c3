"""Real owners of jobs: a Jupyter server with its kernels, and containers of podman in folders of their own."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from tests.conftest import BIN, LIMIT_S
from tests.places import QUICK
from tests.waiting import end

TOKEN = "a-token-of-the-tests"


def eventually(found: Callable[[], Any], what: str) -> Any:
    """Return what is found as soon as it is there."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        with suppress(OSError, ValueError, KeyError, IndexError):
            if result := found():
                return result
        time.sleep(0.02)
    raise AssertionError(f"it never came: {what}")


class Jupyter:
    """A Jupyter server of the one who runs the tests, whose kernels are on simulated GPUs."""

    def __init__(self, home: pathlib.Path, environ: Mapping[str, str], *, token: str = TOKEN) -> None:
        self.home, self.token = home, token
        self.notebooks = home / "notebooks"
        (self.notebooks / "proj").mkdir(parents=True)
        self._log = (home / "jupyter.log").open("w")
        self.process = subprocess.Popen(
            [
                *(str(BIN / "jupyter-server"), "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"),
                *(f"--ServerApp.root_dir={self.notebooks}", f"--IdentityProvider.token={token}"),
            ],
            env={**environ, "HOME": str(home), "JUPYTER_PLATFORM_DIRS": "0", "PYTHONPATH": QUICK},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        self.runtime = home / ".local/share/jupyter/runtime"
        self.file = self.runtime / f"jpserver-{self.process.pid}.json"
        try:
            self.url = eventually(lambda: json.loads(self.file.read_text())["url"], "the server's file")
            eventually(lambda: self.ask("GET", "api/status"), "the server's first answer")
        except BaseException:
            self.close()
            raise

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask the server as its user."""
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else {}

    def open(self, path: str, gpu: str = "0") -> tuple[str, int]:
        """Open a notebook on a GPU; return the id and the pid of its kernel."""
        spec = self.home / f".local/share/jupyter/kernels/gpu{gpu}"
        spec.mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        text = {"argv": words, "display_name": "gpu", "language": "python", "env": {"CUDA_VISIBLE_DEVICES": gpu}}
        (spec / "kernel.json").write_text(json.dumps(text))
        wanted = {"path": path, "name": path.rpartition("/")[2], "type": "notebook", "kernel": {"name": f"gpu{gpu}"}}
        kernel = str(self.ask("POST", "api/sessions", wanted)["kernel"]["id"])
        return kernel, int(eventually(lambda: self.pid_of(kernel), "the kernel"))

    def pid_of(self, kernel: str) -> int | None:
        """Return the pid of a kernel that lives."""
        for name in os.listdir("/proc"):
            if name.isdigit() and name != str(os.getpid()):
                with suppress(OSError):
                    if f"kernel-{kernel}.json".encode() in pathlib.Path(f"/proc/{name}/cmdline").read_bytes():
                        return int(name)
        return None

    def kernels(self) -> list[str]:
        """Return the kernels that the server has."""
        return [each["id"] for each in self.ask("GET", "api/kernels")]

    def close(self) -> None:
        """End the server with its kernels."""
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        finally:
            end(self.process)
            self._log.close()


class Podman:
    """Podman with storage of its own, an image that is made on the spot, and its API on a socket."""

    def __init__(self) -> None:
        for program in ("podman", "runc", "busybox"):
            if shutil.which(program) is None:
                pytest.skip(f"there is no {program}")
        if os.geteuid() != 0:
            pytest.skip("containers need root here")
        self._folder = folder = pathlib.Path(tempfile.mkdtemp(prefix="podman-"))  # podman wants short paths
        self._words = [
            "podman",
            "--runtime",
            "runc",
            "--root",
            str(folder / "root"),
            "--runroot",
            str(folder / "run"),
        ]
        self._words += ["--tmpdir", str(folder / "tmp"), "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"]
        self._words += ["--events-backend", "file"]
        root = folder / "image" / "bin"
        root.mkdir(parents=True)
        shutil.copy(str(shutil.which("busybox")), root / "busybox")
        for name in ("sh", "sleep", "trap"):
            (root / name).symlink_to("busybox")
        packed = subprocess.run(["tar", "-C", str(folder / "image"), "-c", "."], capture_output=True, check=True)
        self("import", "-", "tiny", reads=packed.stdout)
        limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--network", "host")
        probe = subprocess.run(
            [*self._words, "run", "--rm", *limits, "tiny", "sleep", "0"],
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        if probe.returncode != 0:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"this machine runs no containers: {probe.stderr.decode(errors='replace').strip()[:300]}")
        self.limits = limits
        self.socket = folder / "api.sock"
        self._service = subprocess.Popen(
            [*self._words, "system", "service", "--time=0", f"unix://{self.socket}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self.socket.exists, "podman's socket")

    def __call__(self, *words: str, reads: bytes | None = None, limit_s: float = LIMIT_S) -> str:
        """Run podman; return what it prints."""
        done = subprocess.run([*self._words, *words], input=reads, capture_output=True, timeout=limit_s, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def program(self) -> pathlib.Path:
        """Return a podman for others to call: with this storage, and with what this machine lets containers do."""
        ulimits, made = self.limits[1:4:2], self._folder / "podman"
        config = self._folder / "containers.conf"
        config.write_text(f"[containers]\ndefault_ulimits = {json.dumps(ulimits)}\n")
        made.write_text(f'#!/bin/sh\nCONTAINERS_CONF={config} exec {shlex.join(self._words)} "$@"\n')
        made.chmod(0o755)
        return made

    def run(self, name: str, *options: str, command: tuple[str, ...] = ("sleep", "1000")) -> tuple[str, int]:
        """Start a container; return its id and the pid of its first process."""
        container = self("run", "-d", "--name", name, *self.limits, *options, "tiny", *command)
        return container, self.pid_of(container)

    def logs(self, container: str) -> str:
        """Return what a container has printed, on stdout and stderr."""
        words = [*self._words, "logs", container]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S, check=True)
        return done.stdout.decode()

    def pid_of(self, container: str) -> int:
        """Return the pid of the first process of a container; 0 if it does not run."""
        return int(self("inspect", "--format", "{{.State.Pid}}", container))

    def close(self) -> None:
        """Remove all containers and end the service."""
        with suppress(AssertionError):
            self("rm", "--all", "--force", "--time=0")
        self._service.kill()
        self._service.wait(LIMIT_S)
        eventually(self._removed, "the end of what cleans up after containers")

    def _removed(self) -> bool:
        shutil.rmtree(self._folder, ignore_errors=True)
        return not self._folder.exists()
