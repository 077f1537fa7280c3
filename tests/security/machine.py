"""A machine of several users with root's daemon: what the tests of the promises in docs/security.md start."""

import http.client
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tests.interfaces.cli.filled import Fill
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.standin import World
from tests.waiting import end_group

ADA, BOB = 61001, 61002
QUICK_RULE = """
[[idle]]
name = "forgotten"
act = true
idle_for = "3s"
warmup = 0
warn_before = "1s"
grace = "2s"
"""
"""A rule under which an idle job is stopped while a test waits."""
_CONFIG = """
[machine]
every = "500ms"
{of_machine}
[terminals]
users = "ignore"
"""


class Machine:
    """Simulated GPUs that all users share, in a folder that they all may enter."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.chmod(0o1777)
        self.folder = folder
        self.claims = folder / "claims"
        self.claims.mkdir()
        self.claims.chmod(0o1777)
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY),
            "FALLOW_SIMULATE": "4xH100",
            "FALLOW_CLAIM_DIR": str(self.claims),
            "FALLOW_SOCKET": str(folder / "run" / "fallow.sock"),
            "FALLOW_DAEMON_TIMEOUT": "20s",
        }
        self._started: list[subprocess.Popen[str]] = []

    def with_driver(self, library: pathlib.Path, cards: int) -> World:
        """Replace the simulated GPUs by cards of the stand-in driver, which shows everybody all processes."""
        shutil.copytree(library, self.folder / "driver")
        world = World.create(self.folder / "world", cards=cards)
        del self.environ["FALLOW_SIMULATE"]
        self.environ |= {**world.environ(self.folder / "driver"), "FALLOW_DRIVER_TIMEOUT": "2s"}
        return world

    def home(self, who: int | str) -> pathlib.Path:
        """Return a folder that only this user may enter; `UID:GID` is a user with one more group."""
        uid = int(str(who).partition(":")[0])
        path = self.folder / f"home-{uid}"
        if not path.exists():
            path.mkdir(mode=0o700)
            os.chown(path, uid, uid)
        return path

    def start(self, uid: int, *words: str, executable: str | None = None, **variables: str) -> subprocess.Popen[str]:
        """Start a program of a user in a session of its own; what still runs when the test ends is killed."""
        process = subprocess.Popen(
            words,
            executable=executable,
            env={**self.environ, **self._places_of(uid), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            user=uid,
            group=uid,
            extra_groups=[],
            start_new_session=True,
            cwd="/",
        )
        self._started.append(process)
        return process

    def job(self, uid: int, gpu: int, *words: str, executable: str | None = None) -> subprocess.Popen[str]:
        """Start a job of a user on a GPU, which came without fallow. It does nothing unless it is said what."""
        return self.start(uid, *(words or ("sleep", "1000")), executable=executable, CUDA_VISIBLE_DEVICES=str(gpu))

    def begin(self, uid: int | str, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start `fallow` as a user. Where others cannot read this Python, root starts it and becomes the user."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.as_user", str(uid), *words],
            env={**self.environ, **self._places_of(uid), **variables},
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def fallow(self, uid: int | str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `fallow` as a user to its end."""
        process = self.begin(uid, *words, **variables)
        out, err = process.communicate(timeout=LIMIT_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def config(self, text: str, of_machine: str = "") -> pathlib.Path:
        """Write a config that only root can read; some of it are further keys of [machine]."""
        file = self.home(0) / "fallow.toml"
        file.write_text(_CONFIG.format(of_machine=of_machine) + text)
        file.chmod(0o600)
        return file

    def up(self, text: str = "", *, of_machine: str = "", **variables: str) -> Fill:
        """Start root's daemon, and return it once it looks at the GPUs."""
        config = str(self.config(text, of_machine))
        words = [str(BIN / "fallow"), "up", "--config", config, "--listen", "127.0.0.1:0"]
        daemon = Fill(self.start(0, *words, **variables))
        daemon.until("up, with")
        return daemon

    def end(self) -> None:
        """Kill what was started."""
        for process in self._started:
            end_group(process)

    def _places_of(self, uid: int | str) -> dict[str, str]:
        home = str(self.home(uid))
        return {"HOME": home, "FALLOW_STATE_DIR": f"{home}/state"}


class Page:
    """The page of a daemon, as a program reads it that sets every header itself."""

    def __init__(self, daemon: Fill) -> None:
        (line,) = daemon.told("the page is at")
        self.port = int(line.split("127.0.0.1:")[1].split("/", maxsplit=1)[0])
        self.origin = f"http://127.0.0.1:{self.port}"

    def ask(
        self, path: str, body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, http.client.HTTPMessage, str]:
        """Return status, headers and text of an answer; with a body, of a form that was sent."""
        form = {} if body is None else {"content-type": "application/x-www-form-urlencoded"}
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            wire.request("GET" if body is None else "POST", path, body, {**form, **(headers or {})})
            answer = wire.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            wire.close()
