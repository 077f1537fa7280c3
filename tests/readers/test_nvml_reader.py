"""What the reader of the driver does from one look to the next, in time that the test drives."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.standin import Process, World

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
reader = NvmlReader("driven", clock, Proc(), 0.3)
reader.open()
for line in sys.stdin:
    clock.now_s = float(line)
    gpus = reader.look(Depth.ALL).gpus
    peaks = [getattr(gpu.recent, "peak", None) for gpu in gpus]
    print(json.dumps([[(gpu.uuid, gpu.trouble) for gpu in gpus], peaks]), flush=True)
"""
SAMPLE_S, KEPT_S = 0.2, 14.0
Look = Callable[[float], list[list[str | None]]]


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    made = make_world(1)
    made[0].gpm = None
    return made


@pytest.fixture
def peaks() -> list[float | None]:
    """What ran on the first GPU at most between two looks, at the last one."""
    return []


@pytest.fixture
def look(world: World, fallow: Fallow, peaks: list[float | None]) -> Iterator[Look]:
    """Looks at this moment, and returns the UUID and the trouble of each GPU."""
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env=fallow.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:

        def look_at(at_s: float) -> list[list[str | None]]:
            print(at_s, file=reader.stdin, flush=True)
            found, peaks[:] = json.loads(reader.stdout.readline())  # type: ignore[union-attr]
            return found  # type: ignore[no-any-return]

        yield look_at
        reader.stdin.close()  # type: ignore[union-attr]


def test_the_first_look_may_come_long_after_the_driver_was_opened(world: World, look: Look) -> None:
    assert look(10.0) == [[world[0].uuid, None]]


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


def test_clocks_and_temperature_are_read_every_five_seconds(world: World, look: Look) -> None:
    for at_s in range(0, 32, 2):
        look(float(at_s))
    assert (world.calls("nvmlDeviceGetTemperature"), world.calls("nvmlDeviceGetClockInfo")) == (6, 6 * TWO_CALLS)


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


@pytest.mark.parametrize("works_at_s", [0.05, 0.9, 1.85])
def test_what_ran_for_a_moment_between_two_looks_is_seen_at_each(
    world: World, look: Look, peaks: list[float | None], works_at_s: float
) -> None:
    """The instant of each look shows nothing; the driver keeps 14 s of samples."""
    begin_s, card = 1_700_000_000.0, world[0]
    card.compute, card.memory_used, card.utilization = [Process(os.getpid(), 2**30)], 2**30, 0
    for number in range(10):
        at_s = begin_s + 2 * number
        ends = [at_s - SAMPLE_S * back for back in reversed(range(round(KEPT_S / SAMPLE_S)))]
        ran = [abs((end_s - SAMPLE_S / 2) % 2 - works_at_s) < SAMPLE_S / 2 for end_s in ends]
        card.samples = [
            (round(end_s * 1e6), 90 if ran_then else 0) for end_s, ran_then in zip(ends, ran, strict=True)
        ]
        look(2.0 * number)
        assert peaks == [0.9]
    card.samples = [(round(end_s * 1e6), 0) for end_s in ends]
    look(30.0)
    assert peaks != [0.9]


def test_what_came_and_went_on_an_empty_gpu_is_seen_and_what_its_last_holder_did_is_not(
    world: World, look: Look, peaks: list[float | None]
) -> None:
    card, begin_us = world[0], 1_700_000_000_000_000
    card.compute, card.memory_used, card.samples = [Process(os.getpid(), 2**30)], 2**30, [(begin_us, 90)]
    look(0.0)
    card.compute, card.memory_used, card.samples = [], 0, [(begin_us, 90), (begin_us + 10**6, 90)]
    look(2.0)
    assert peaks == [None]
    card.samples = [(begin_us + 10**6, 90), (begin_us + 5 * 10**6, 80)]
    look(13.0)
    assert peaks == [0.8]
