"""What all parts share: a machine of 8 stand-in cards, fallow as it is installed, and how a promise is printed."""

import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tests.standin import Process, World, build

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(sys.executable).parent
FALLOW = str(BIN / "fallow")
CARDS = 8
_NOT_OURS = ("PYTHONDONTWRITEBYTECODE", "CUDA_VISIBLE_DEVICES", "FALLOW_SIMULATE", "FALLOW_CONFIG")


class Machine:
    """8 cards behind the stand-in driver, and folders of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.world = World.create(folder / "world", cards=CARDS)
        library = build(REPOSITORY / "build" / "standin")
        places = {
            "FALLOW_CLAIM_DIR": f"{folder}/claims",
            "FALLOW_STATE_DIR": f"{folder}/state",
            "FALLOW_SOCKET": f"{folder}/run/fallow.sock",
        }
        ours = {name: text for name, text in os.environ.items() if name not in _NOT_OURS}
        self.environ = {**ours, **self.world.environ(library), **places}

    def give_nodes(self) -> None:
        """Let the cards have device nodes, whose opens can be heard."""
        self.environ.update(self.world.nodes(self.folder / "devices"))

    def occupy(self, pid: int) -> None:
        """Let all cards be held by a process, half busy."""
        for card in self.world:
            card.compute, card.utilization = [Process(pid, 2**30)], 50


@contextmanager
def machine() -> Iterator[Machine]:
    """One, until the part is over."""
    with tempfile.TemporaryDirectory(prefix="fallow-bench-") as folder:
        made = Machine(pathlib.Path(folder))
        try:
            yield made
        finally:
            made.world.close()


def promise(sentence: str, *, kept: bool) -> bool:
    """Print whether it was kept, and pass that on."""
    print(f"  promise: {sentence}: {'kept' if kept else 'BROKEN'}", flush=True)
    return kept


class Spent(NamedTuple):
    """The wall time and the CPU time of a command."""

    wall_s: float
    cpu_s: float


def timed(words: Sequence[str], environ: Mapping[str, str]) -> Spent:
    """Run a command, discard its output, and return the time it took."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    began_s = time.perf_counter()
    pid = os.posix_spawnp(words[0], words, environ, file_actions=quiet)
    _, status, used = os.wait4(pid, 0)  # subprocess polls if it has a timeout, up to 50 ms apart
    wall_s = time.perf_counter() - began_s
    if status:
        raise RuntimeError(f"{words} exited with {os.waitstatus_to_exitcode(status)}")
    return Spent(wall_s, used.ru_utime + used.ru_stime)


def cpu_s(pid: int) -> float:
    """CPU time of a process, to the nanosecond: all its threads, those that ended among them."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock of a process, as clock_getcpuclockid(3) makes it


def share_of_a_core(pid: int, for_s: float) -> float:
    """How much of one core a process uses, from now on for so long."""
    before_s, began_s = cpu_s(pid), time.monotonic()
    time.sleep(for_s)
    return (cpu_s(pid) - before_s) / (time.monotonic() - began_s)


def resident_mb(pid: int) -> float:
    """Memory of a process."""
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
