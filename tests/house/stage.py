"""A simulated machine with a daemon, a job and the reader's programs, on which commands of the documents are run."""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests import length
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S, ME
from tests.waiting import until

MACHINE = "8xH100,2x3090"
PROGRAMS = ("python", "torchrun", "make", "nightly-benchmark", "miner-run", "docker", "systemctl")
"""Programs of the reader: here they do nothing."""
_CONFIG = "[machine]\nevery = '1s'\n"
_FLEET = "[fleet]\n[[fleet.hosts]]\nname = 'gpu1'\nurl = '{page}'\n"


class Stage:
    """One machine for many commands; what a command stops or releases is made anew before the next one."""

    def __init__(self, home: pathlib.Path, *, with_daemon: bool = True) -> None:
        self.fallow = Fallow(home)
        self.folder = home / "work"
        self.folder.mkdir()
        self._put_programs(home / "bin")
        self.config = self.folder / "fallow.toml"
        self.config.write_text(_CONFIG)
        self.fallow.environ |= {
            "PATH": f"{home / 'bin'}:{self.fallow.environ['PATH']}",
            "FALLOW_SIMULATE": MACHINE,
            "FALLOW_CONFIG": str(home / "fallow.toml"),
            "TERM": "xterm-256color",
        }
        self._jobs: dict[str, subprocess.Popen[str]] = {}
        if with_daemon:
            self._start_daemon(home / "fallow.toml")

    def _put_programs(self, folder: pathlib.Path) -> None:
        folder.mkdir()
        for name in (*PROGRAMS, "sudo"):
            (folder / name).write_text('#!/bin/sh\n[ "${0##*/}" != sudo ] || exec "$@"\n')
            (folder / name).chmod(0o755)
        (self.folder / "nightly-benchmark").symlink_to(folder / "nightly-benchmark")
        (self.folder / "train.py").touch()

    def _start_daemon(self, config: pathlib.Path) -> None:
        """Start `fallow up`, and let it show itself as the only other host of its fleet."""
        config.write_text(_CONFIG)
        daemon = Fill(self.fallow.start("up", "--config", str(config), "--listen", "127.0.0.1:0"))
        said = daemon.until("the page is at ")
        self.page = re.findall(r"http://\S+/", said)[0]
        daemon.until("up, ")
        config.write_text(_CONFIG + _FLEET.format(page=self.page.rstrip("/")))
        assert self.fallow("reload").returncode == 0
        daemon.until("config reloaded")

    def job(self, gpu: str) -> int:
        """Return the pid of a job that is on a GPU now."""
        process = self._jobs.get(gpu)
        if process is None or process.poll() is not None:
            process = self._jobs[gpu] = self.fallow.start_other("sleep", "100000", CUDA_VISIBLE_DEVICES=gpu)
            shown = f'"pid": {process.pid},'
            until(lambda: self.fallow("status", "--json").stdout, lambda said: shown in said, pause_s=0.2)
        return process.pid

    def protection(self) -> int:
        """Place a protection, and return its number."""
        placed = self.fallow("protect", "5", "--for", "1h", "--json")
        return int(json.loads(placed.stdout)["protections"][0]["id"])

    def unprotect(self) -> None:
        """Release all protections, so that a page does not depend on the one before."""
        for each in json.loads(self.fallow("protect", "--list", "--json").stdout)["protections"]:
            self.fallow("protect", "--release", str(each["id"]))

    def named(self, line: str) -> str:
        """Return a line with what is here in the place of what a reader has: jobs, users, addresses, files."""
        line = re.sub(r"\bpid:\d+", lambda _: f"pid:{self.job('3')}", line)
        line = re.sub(r"--release \d+", lambda _: f"--release {self.protection()}", line)
        line = re.sub(r"\bada\b|\buser[12]\b", ME, line)
        line = re.sub(r"\bCMD\b|(?<=-- )bash$", "true", line)
        line = re.sub(r"^(fallow burn\b.*?)(?: --for \d+[smh])?$", r"\1 --for 1s", line)
        if line.startswith("fallow burn") and "--gpus" not in line and not length.MORE:
            line += " --gpus 0"  # each GPU is a process that computes
        line = line.replace("http://127.0.0.1:8990/", self.page)
        return line.replace("/run/fallow/fallow.sock", self.fallow.environ["FALLOW_SOCKET"])

    def bash(self, line: str) -> "subprocess.CompletedProcess[str]":
        """Run a line of shell to its end, with nobody at the keyboard."""
        return subprocess.run(
            ["bash", "-c", f"{line}\nwait" if line.endswith("&") else line],
            env=self.fallow.environ,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def close(self) -> None:
        """End everything on it."""
        self.fallow.end_all()


class Terminal:
    """A line of shell on a terminal, with a person at it."""

    def __init__(self, keyboard: int, process: subprocess.Popen[bytes]) -> None:
        self._keyboard, self._process = keyboard, process
        self.seen = ""

    def sees(self, text: str) -> None:
        """Wait until this is on the screen."""
        by_s = time.monotonic() + LIMIT_S
        while text not in self.seen:
            assert time.monotonic() < by_s, f"it never showed {text!r}: {self.seen!r}"
            assert self._read(0.05), f"it ended without {text!r}: {self.seen!r}"

    def types(self, keys: str) -> None:
        """Press keys."""
        os.write(self._keyboard, keys.encode())

    def ends(self) -> int:
        """Wait for its end, and return its exit code."""
        by_s = time.monotonic() + LIMIT_S
        while self._process.poll() is None:
            assert time.monotonic() < by_s, f"it does not end: {self.seen!r}"
            self._read(0.02)
        return self._process.wait(LIMIT_S)

    def _read(self, wait_s: float) -> bool:
        """Read what it writes; False if nothing more will come."""
        if not select.select([self._keyboard], [], [], wait_s)[0]:
            return True
        with suppress(OSError):  # nobody has the other side any more
            read = os.read(self._keyboard, 65536)
            self.seen += read.decode(errors="replace")
            return bool(read)
        return False


@contextmanager
def terminal(stage: Stage, line: str) -> Iterator[Terminal]:
    """Run a line of shell on a terminal of its own."""
    keyboard, far = os.openpty()
    with subprocess.Popen(
        ["setsid", "-c", "bash", "-c", line],
        env=stage.fallow.environ,
        cwd=stage.folder,
        stdin=far,
        stdout=far,
        stderr=far,
    ) as process:
        os.close(far)
        try:
            yield Terminal(keyboard, process)
        finally:
            os.close(keyboard)  # hangs up
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
