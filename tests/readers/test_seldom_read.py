"""What is slow to read is read seldom, by the time and not by the number of looks."""

import subprocess
import sys
from collections.abc import Callable

from tests.conftest import Fallow
from tests.standin import World

TWO_CALLS = 2  # how many samples there are, and the samples
SAMPLES, MIG_MODE = "nvmlDeviceGetSamples", "nvmlDeviceGetMigMode"
LOOKS = """
import sys
from fallow.core.ports import Depth
from fallow.engine.machine.clock import SystemClock
from fallow.readers.nvml_reader import NvmlReader
from fallow.readers.proc import Proc

class Driven(SystemClock):
    now_s = 0.0
    def monotonic_s(self):
        return self.now_s

clock = Driven()
reader = NvmlReader("driven", clock, Proc(), 2.0)
for line in sys.stdin:
    clock.now_s = float(line)
    reader.look(Depth.ALL)
    print(flush=True)
"""


def test_an_empty_gpu_is_asked_for_samples_every_ten_seconds_and_for_mig_every_minute(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    world = make_world(1)
    world[0].gpm = None
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env=fallow.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None

        def calls_until(*looks_s: float) -> tuple[int, int]:
            """How often samples and MIG mode were asked for at these looks."""
            before = world.calls(SAMPLES), world.calls(MIG_MODE)
            for at_s in looks_s:
                print(at_s, file=reader.stdin, flush=True)
                reader.stdout.readline()  # type: ignore[union-attr]
            return world.calls(SAMPLES) - before[0], world.calls(MIG_MODE) - before[1]

        assert calls_until(0) == (0, 1), "a command that looks once has no use for them"
        assert calls_until(*range(2, 121, 2)) == (12 * TWO_CALLS, 2)
        assert calls_until(*(120.1 + each / 10 for each in range(100))) == (TWO_CALLS, 0), "however often it looks"
        reader.stdin.close()
