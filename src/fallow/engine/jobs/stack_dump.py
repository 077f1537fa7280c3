"""Write the Python stacks of a job to a file, in a thread where the caller must go on: py-spy may take seconds."""

import threading
from collections.abc import Sequence

from fallow.actuators.process import py_spy
from fallow.actuators.process.helpers import Helpers
from fallow.core.process import Process
from fallow.engine.machine.world import World

_LIMIT_S = 30.0


def write_stacks(world: World, processes: Sequence[Process], name: str, helpers: Helpers) -> str:
    """Write the stacks of these processes to a new file in the state folder; return a sentence about it."""
    try:
        return py_spy.dump(processes, world.proc, world.state_folder, f"stacks-{name}.txt", helpers, world.environ)
    except Exception as error:  # noqa: BLE001  whatever breaks here, the job is asked all the same
        return f"no stacks: {error}"


class StackWriting:
    """One file of stacks that is being written."""

    def __init__(self, world: World, processes: Sequence[Process], name: str) -> None:
        self.sentence = "no stacks: py-spy takes too long"
        self._now = world.clock.monotonic_s
        self._until_s = self._now() + _LIMIT_S

        def write() -> None:
            self.sentence = write_stacks(world, processes, name, Helpers(self._now))

        self._thread = threading.Thread(target=write, name="fallow-stacks", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Return whether there is nothing more to wait for; then `sentence` says how it went."""
        return not self._thread.is_alive() or self._now() >= self._until_s
