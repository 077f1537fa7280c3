"""Jobs on simulated GPUs for the tests of `fallow stop`, and `fallow stop` on a terminal."""

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.terminal import Terminal

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


def on_terminal(fallow: Fallow, *words: str) -> Terminal:
    """`fallow stop` on a terminal, with its output in a pipe."""
    return Terminal(["fallow", "stop", *words], fallow.environ, stdout=subprocess.PIPE)


def is_running(pid: int) -> bool:
    """Whether a process lives, and is no zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
