"""What `fallow up` costs on 8 cards, half of them held by somebody and half of them filled, with its page open.

Measured twice at the same time: on a driver whose calls cost next to nothing, and on one whose calls cost what those
of a real one do.
"""

import os
import pwd
import subprocess
import time
from collections.abc import Iterable

from bench.machine import FALLOW, Machine, machine, promise, resident_mb, shares_of_a_core
from fallow.engine.config.model import Config
from tests.standin import Process

_UNWATCHED = "cannot watch opens"
SETTLED_S = 65
MINUTE_S = 60  # in which what is done once a minute is done once, and the energy of half of the cards is read
CPU_LIMIT, MEMORY_LIMIT_MB = 0.004, 70.0
CONFIG = """
[[filler]]
name = "work"
command = "sleep 1000"
user = "{user}"
idle_for = "1s"
[[idle]]
name = "forgotten"
idle_for = "2h"
stuck_for = "1h"
[[guard]]
name = "evening"
action = "run:true"
user = "{user}"
unless = ["cpu:20"]
[terminals]
users = "ignore"
"""


def main() -> bool:
    """Measure, print, and say whether the promises were kept."""
    with machine() as cheap, machine() as real:
        real.cost_what_the_real_driver_costs()
        with Up(cheap) as one, Up(real) as other:
            time.sleep(
                SETTLED_S
            )  # starting up, letting fillers in and counting seconds aloud is not what is measured
            shares = shares_of_a_core([one.pid, other.pid], MINUTE_S)
            memory_mb = max(resident_mb(one.pid), resident_mb(other.pid))
    if one.deaf or other.deaf:  # as where the user has no inotify instance left: then fallow looks often instead
        print("  opens of the GPUs could not be watched, so this is not what fallow costs at rest")
    every_s = Config().machine.every
    print(f"fallow up on 8 cards, its page open, one look every {every_s:g} s, for {MINUTE_S} s")
    print(
        f"  {shares[0]:.3%} of one core; {shares[1]:.3%} with the costs of a real driver; {memory_mb:.1f} MB resident"
    )
    kept = max(shares) <= CPU_LIMIT and memory_mb <= MEMORY_LIMIT_MB
    return promise(f"at most {CPU_LIMIT:.1%} either way, and {MEMORY_LIMIT_MB:.0f} MB", kept=kept)


class Up:
    """A daemon with somebody who watches its page."""

    def __init__(self, here: Machine) -> None:
        file = here.folder / "fallow.toml"
        file.write_text(CONFIG.format(user=pwd.getpwuid(os.geteuid()).pw_name))
        file.chmod(0o600)
        here.give_nodes()
        for card in here.world:
            card.compute = [Process(os.getpid(), 2**30)] if card.index % 2 else []
            card.utilization = 50 if card.index % 2 else 0
        self.deaf = False
        """Whether it could not hear who opens a card."""
        words = [FALLOW, "up", "--config", str(file), "--listen", "127.0.0.1:0"]
        self._up = subprocess.Popen(words, env=here.environ, stderr=subprocess.PIPE, text=True)
        assert self._up.stderr is not None
        address = self._address(self._up.stderr)
        self._page = subprocess.Popen(["curl", "-sN", f"http://{address}/stream"], stdout=subprocess.DEVNULL)
        self.pid = self._up.pid

    def __enter__(self) -> "Up":
        return self

    def __exit__(self, *_: object) -> None:
        self._page.kill()
        self._page.wait()
        self._up.terminate()
        _, said = self._up.communicate(timeout=30)
        self.deaf = self.deaf or _UNWATCHED in said

    def _address(self, said: Iterable[str]) -> str:
        """Of its page, from what it says as it starts."""
        for line in said:
            self.deaf = self.deaf or _UNWATCHED in line
            if "the page is at" in line:
                return line.split("http://")[1].split("/")[0]
        raise AssertionError("it ended before it had a page")
