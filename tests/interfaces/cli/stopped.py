"""Jobs on simulated GPUs for the tests of `fallow stop`, and `fallow stop` on a terminal."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.waiting import end

READY = "print('ready', flush=True)"
SLEEPER = f"import time\n{READY}\ntime.sleep(1000)"
DEAF = f"import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}\ntime.sleep(1000)"
PARENT = (
    "import subprocess, time\nchild = subprocess.Popen(['sleep', '1000'])\n"
    "print(child.pid, flush=True)\nchild.wait()\ntime.sleep(1000)"
)
STARTS_AGAIN = (
    "import os, subprocess\nos.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
    "while True:\n    child = subprocess.Popen(['sleep', '1000'])\n    print(child.pid, flush=True)\n    child.wait()"
)
"""Its child is on the GPU, and it is not: a child that still is its copy is none that came back."""
BUSY = f"{READY}\nwhile True: pass"
ALONE = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\n"
"""Goes before a script that is to be a job of its own: started by nobody who lives, in a session of its own."""


class Job:
    """A process on a GPU, which has begun."""

    def __init__(self, environ: Mapping[str, str], script: str = SLEEPER) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().strip()
        assert self.said, "it never began"
        self.pid = int(self.said if script.startswith(ALONE) else self.process.pid)

    @property
    def lives(self) -> bool:
        return is_running(self.pid)

    def ended_by(self) -> int:
        """The signal that ended it, which it must."""
        return -int(self.process.wait(LIMIT_S))

    def end(self) -> None:
        if is_running(self.pid):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Asked:
    """`fallow stop` on a terminal: what it shows there, and what is answered."""

    def __init__(self, fallow: Fallow, *words: str) -> None:
        self._ours, its = os.openpty()
        self.process = subprocess.Popen(
            ["fallow", "stop", *words],
            env=fallow.environ,
            stdin=its,
            stdout=subprocess.PIPE,
            stderr=its,
            text=True,
            start_new_session=True,
        )
        os.close(its)
        self.shown = ""

    def until(self, words: str) -> str:
        """Read on until these words are shown."""
        by_s = time.monotonic() + LIMIT_S
        while words not in self.shown:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, by_s - time.monotonic()))
            assert ready, f"it never showed {words!r}: {self.shown}"
            try:
                self.shown += os.read(self._ours, 4096).decode(errors="replace")
            except OSError:  # the other side is closed
                raise AssertionError(f"it ended without {words!r}: {self.shown}") from None
        return self.shown

    def answer(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ended(self) -> tuple[int, str]:
        """The exit code and what was printed to stdout."""
        out, _ = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, out

    def close(self) -> None:
        end(self.process)
        os.close(self._ours)


@contextmanager
def on_terminal(fallow: Fallow, *words: str) -> Iterator[Asked]:
    asked = Asked(fallow, *words)
    try:
        yield asked
    finally:
        asked.close()


def is_running(pid: int) -> bool:
    """Whether a process lives, and is no zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
