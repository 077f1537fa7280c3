"""The counter of energy is slow to read, so the cards of a daemon take turns: one in a look at most."""

import subprocess
import sys
from collections.abc import Callable

from tests.conftest import Fallow
from tests.standin import World

COUNTER = "nvmlDeviceGetTotalEnergyConsumption"
CARDS = 4
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
    clock.now_s, depth = float(line.split()[0]), Depth[line.split()[1]]
    print(sum(isinstance(gpu.energy_j, float) for gpu in reader.look(depth).gpus), flush=True)
"""


def test_each_card_tells_its_energy_twice_at_once_and_then_every_two_minutes(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    world = make_world(CARDS)
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env=fallow.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None

        def look(at_s: float, depth: str = "METERED") -> tuple[int, int]:
            """How many counters were read at this look, and of how many cards the energy is known since."""
            before = world.calls(COUNTER)
            print(at_s, depth, file=reader.stdin, flush=True)
            known = int(reader.stdout.readline())  # type: ignore[union-attr]
            return world.calls(COUNTER) - before, known

        assert look(0, "EVERYTHING") == (0, 0), "a command without the daemon does not ask for it"
        assert [look(at_s) for at_s in range(1, 5)] == [(1, 1), (1, 2), (1, 3), (1, 4)]
        assert [look(at_s) for at_s in range(5, 9)] == [(1, 4)] * 4, "a job's energy begins with the second reading"
        read = [look(at_s)[0] for at_s in range(9, 9 + 240)]
        assert max(read) == 1
        assert sum(read) == 2 * CARDS
        assert look(250, "ENERGY") == (CARDS, 4), "who wants it now gets all of them"
        reader.stdin.close()
