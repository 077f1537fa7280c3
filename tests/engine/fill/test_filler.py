"""A filler behind its keeper: nothing of it keeps fallow waiting, and all of it goes with the keeper or fallow."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from fallow.core.fillers import Presence, Yield
from fallow.engine.fill.filler import Filler, FillerSpec, start_filler
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.core.gpus import idle
from tests.interfaces.cli.filled import wait_for_end
from tests.places import LIMIT_S, REPOSITORY
from tests.standin import World as Standin

BLOCKS_NOBODY_S = 1.0
SAYS_THAT_IT_ENDED_AND_HANGS = """
import os, signal, socket
line = socket.socket(fileno=3)
line.recv(65536)
line.send(b'{"now": "ended", "how": "ended with exit code 0", "survivors": []}')
os.kill(os.getpid(), signal.SIGSTOP)
"""
STARTS_ONE_AND_HANGS = """
import json, os, signal, socket, subprocess
line = socket.socket(fileno=3)
line.recv(65536)
started = subprocess.Popen(["sleep", "1000"], start_new_session=True)
line.send(json.dumps({"now": "running", "pid": started.pid}).encode())
os.kill(os.getpid(), signal.SIGSTOP)
"""
CANNOT_BE_KILLED = """
import ctypes, os, time
from fallow.core.fillers import Presence
from fallow.core.ports import Depth
from fallow.engine.fill.filler import FillerSpec, start_filler
from fallow.engine.machine.world import World

world = World(dict(os.environ), simulate="1xH100")
gpus = world.gpu_reader.look(Depth.ALL).gpus
filler = start_filler(world, FillerSpec(("sleep", "1000")), gpus)
while filler.pid is None:
    filler.wait(1.0)
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(0x4206, filler.pid, None, 0x40) == 0  # it stays in its tracer's exit event, whatever it is sent
"""
ITS_KEEPER_SAYS_SO = """
filler.kill()
while filler.presence is not Presence.ABSENT:
    filler.wait(1.0)
filler.close()
print(filler.ended, [f"pid {filler.pid} " in note for note in filler.notes], world.proc.stat(filler.keeper))
"""
NOBODY_WAITS_FOR_IT = """
began = time.monotonic()
filler.kill_with_keeper()
filler.close()
print(filler.presence.value, time.monotonic() - began < 1.0)
"""


def behind(keeper: str, first: Mapping[str, object]) -> Filler:
    """Return a filler whose keeper is this Python program."""
    return Filler((sys.executable, "-c", keeper), os.environ, first, Proc(), time.monotonic)


@contextmanager
def started(fallow: Fallow, *command: str, manner: Yield = Yield.TERM) -> Iterator[Filler]:
    """Start a filler, and wait until it runs."""
    world = World(fallow.environ)
    filler = start_filler(world, FillerSpec(command, FillRules(manner=manner)), [idle(0)])
    while filler.pid is None:
        filler.wait(1.0)
    try:
        yield filler
    finally:
        filler.kill_with_keeper()
        filler.close()
        world.close()


@pytest.mark.parametrize("length", [70_000, 300_000])
def test_an_order_that_the_keeper_cannot_read_whole_starts_nothing(length: int) -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        behind("", {"gives": {"LONG": "x" * length}})


def test_a_keeper_that_hangs_at_its_end_blocks_nobody() -> None:
    filler = behind(SAYS_THAT_IT_ENDED_AND_HANGS, {})
    while filler.presence is not Presence.ABSENT:
        filler.wait(1.0)
    closing = threading.Thread(target=filler.close)
    closing.start()
    closing.join(BLOCKS_NOBODY_S)
    hangs = closing.is_alive()
    os.kill(filler.keeper, signal.SIGKILL)
    closing.join()
    assert not hangs
    os.waitpid(filler.keeper, 0)


def test_a_silent_keeper_is_killed_with_all_below_it() -> None:
    filler = behind(STARTS_ONE_AND_HANGS, {})
    while filler.pid is None:
        filler.wait(1.0)
    filler.kill_with_keeper()
    wait_for_end([filler.keeper, filler.pid])
    filler.close()
    assert filler.presence is Presence.ABSENT


@pytest.mark.parametrize(
    ("then", "said"),
    [(ITS_KEEPER_SAYS_SO, "was killed and has not ended [True] None\n"), (NOBODY_WAITS_FOR_IT, "absent True\n")],
)
@pytest.mark.more
def test_a_filler_that_cannot_be_killed_blocks_nobody(tmp_path: pathlib.Path, then: str, said: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CANNOT_BE_KILLED + then],
        env={**os.environ, **Fallow(tmp_path).environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.stdout == said, ran.stderr


def test_a_filler_goes_with_its_keeper(simulated: Fallow) -> None:
    with started(simulated, "sleep", "1000") as filler:
        assert filler.pid is not None
        os.kill(filler.keeper, signal.SIGKILL)
        wait_for_end([filler.pid])
        filler.wait(LIMIT_S)
        assert (filler.presence, filler.ended) == (Presence.ABSENT, "was killed together with its keeper")


def test_a_filler_that_does_not_fit_into_host_memory_is_asked_to_end_and_not_suspended(
    make_world: Callable[..., Standin], fallow: Fallow
) -> None:
    make_world(cards=1)
    with started(fallow, "sleep", "1000", manner=Yield.SUSPEND) as filler:
        filler.suspend(5.0, 2**60)
        while filler.presence is not Presence.ABSENT:
            filler.wait(LIMIT_S)
        assert filler.ended == "died of SIGTERM"
        assert " do not fit into host memory: " in " ".join(filler.notes)
