"""What the reader of the driver does from one look to the next, in time that the test drives."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.standin import World

TWO_CALLS = 2  # how many samples there are, and the samples
SAMPLES, MIG_MODE = "nvmlDeviceGetSamples", "nvmlDeviceGetMigMode"
DRIVER_NOT_LOADED = 9
LOOKS = """
import json
import sys
from fallow.core.ports import Depth
from fallow.engine.machine.clock import SystemClock
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc

class Driven(SystemClock):
    began_s, now_s = SystemClock().monotonic_s(), 0.0
    def monotonic_s(self):  # calls are limited by real time
        return super().monotonic_s() - self.began_s + self.now_s

clock = Driven()
reader = NvmlReader("driven", clock, Proc(), 0.3, reopens=True)
reader.open()
for line in sys.stdin:
    clock.now_s = float(line)
    print(json.dumps([(gpu.uuid, gpu.trouble) for gpu in reader.look(Depth.ALL).gpus]), flush=True)
"""
Look = Callable[[float], list[list[str | None]]]


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    made = make_world(1)
    made[0].gpm = None
    return made


@pytest.fixture
def look(world: World, fallow: Fallow) -> Iterator[Look]:
    """Looks at this moment, and returns the UUID and the trouble of each GPU."""
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env=fallow.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:

        def look_at(at_s: float) -> list[list[str | None]]:
            print(at_s, file=reader.stdin, flush=True)
            found: list[list[str | None]] = json.loads(reader.stdout.readline())  # type: ignore[union-attr]
            return found

        yield look_at
        reader.stdin.close()  # type: ignore[union-attr]


def test_an_empty_gpu_is_asked_for_samples_every_ten_seconds_and_for_mig_every_minute(
    world: World, look: Look
) -> None:
    def calls_until(*looks_s: float) -> tuple[int, int]:
        """How often samples and MIG mode were asked for at these looks."""
        before = world.calls(SAMPLES), world.calls(MIG_MODE)
        for at_s in looks_s:
            look(at_s)
        return world.calls(SAMPLES) - before[0], world.calls(MIG_MODE) - before[1]

    assert calls_until(0) == (0, 1), "a command that looks once has no use for them"
    assert calls_until(*range(2, 121, 2)) == (12 * TWO_CALLS, 2)
    assert calls_until(*(120.1 + each / 10 for each in range(100))) == (TWO_CALLS, 0), "however often it looks"


def test_a_driver_that_goes_away_is_opened_again_every_five_seconds_until_it_is_back(
    world: World, look: Look
) -> None:
    uuid = world[0].uuid
    assert look(0) == [[uuid, None]]
    gone = world.fault("*", error=DRIVER_NOT_LOADED), world.fault("nvmlInit", error=DRIVER_NOT_LOADED)
    assert [look(at_s)[0][0] for at_s in range(2, 30, 2)] == [uuid] * 14
    assert look(30) == [[uuid, "the NVIDIA driver is not loaded"]]
    assert 3 <= world.calls("nvmlInit") <= 6
    for each in gone:
        world.heal(each)
    assert [uuid, None] in [look(at_s)[0] for at_s in range(32, 50, 2)]
    assert look(50) == [[uuid, None]]


def test_a_driver_in_which_a_call_hangs_is_not_opened_again(world: World, look: Look) -> None:
    look(0)
    opened = world.calls("nvmlInit")
    gone = world.fault("nvmlDeviceGetMemoryInfo", never=True)
    troubles = [look(at_s)[0][1] for at_s in range(3, 30, 3)]
    assert all("does not answer nvmlDeviceGetMemoryInfo" in str(trouble) for trouble in troubles)
    assert world.calls("nvmlInit") == opened
    world.heal(gone)
