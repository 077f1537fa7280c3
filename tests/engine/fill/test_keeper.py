"""The end of a filler with its keeper: what the keeper kills and names, and what the kernel does without it."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from fallow.core.ports import Depth
from fallow.engine.fill.start import FillerSpec, SystemFillerStarter
from fallow.engine.machine.world import World
from tests.conftest import Fallow
from tests.interfaces.cli.filled import wait_for_end
from tests.places import LIMIT_S, REPOSITORY

CANNOT_BE_KILLED = """
import ctypes, os
from fallow.core.fillers import Presence
from fallow.core.ports import Depth
from fallow.engine.fill.start import FillerSpec, SystemFillerStarter
from fallow.engine.machine.world import World

world = World(dict(os.environ), simulate="1xH100")
gpus = world.gpu_reader.look(Depth.ALL).gpus
filler = SystemFillerStarter(world).start(FillerSpec(("sleep", "1000")), gpus)
while filler.pid is None:
    filler.wait(1.0)
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(0x4206, filler.pid, None, 0x40) == 0  # it stays in its tracer's exit event, whatever it is sent
filler.kill()
while filler.presence is not Presence.ABSENT:
    filler.wait(1.0)
filler.close()
print(filler.ended, [f"pid {filler.pid} " in note for note in filler.notes], world.proc.stat(filler.keeper))
"""


@pytest.mark.more
def test_a_keeper_names_what_it_cannot_kill_and_ends(tmp_path: pathlib.Path) -> None:
    environ = {**os.environ, **Fallow(tmp_path).environ, "PYTHONPATH": str(REPOSITORY)}
    ran = subprocess.run(
        [sys.executable, "-c", CANNOT_BE_KILLED],
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.stdout == "was killed and has not ended [True] None\n", ran.stderr


def test_the_kernel_ends_a_filler_whose_keeper_is_killed(simulated: Fallow) -> None:
    world = World(simulated.environ)
    gpus = world.gpu_reader.look(Depth.HOLDERS).gpus[:1]
    filler = SystemFillerStarter(world).start(FillerSpec(("sleep", "1000")), gpus)
    while filler.pid is None:
        filler.wait(1.0)
    os.kill(filler.keeper, signal.SIGKILL)
    wait_for_end([filler.pid])
    filler.close()
    world.close()
