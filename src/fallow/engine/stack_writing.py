"""The Python stacks of a job, written in a thread: py-spy may take seconds, and whoever asked must stay awake."""

import os
import threading
from collections.abc import Sequence

from fallow.actuators import stacks
from fallow.actuators.helpers import Helpers
from fallow.engine.world import World

_LIMIT_S = 30.0


class StackWriting:
    """One file of stacks that is being written."""

    def __init__(self, world: World, pids: Sequence[int], name: str) -> None:
        self.sentence = "no stacks: py-spy takes too long"
        self._world = world
        self._pids = pids
        self._into = os.path.join(world.state_folder, f"stacks-{name}.txt")
        self._until_s = world.clock.monotonic_s() + _LIMIT_S
        self._thread = threading.Thread(target=self._write, name="fallow-stacks", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to wait for; then `sentence` says what came of it."""
        return not self._thread.is_alive() or self._world.clock.monotonic_s() >= self._until_s

    def join(self) -> None:
        """Wait until it is over."""
        self._thread.join(_LIMIT_S)

    def _write(self) -> None:
        helpers = Helpers(self._world.clock.monotonic_s)
        self.sentence = stacks.dump(self._pids, self._into, helpers, self._world.environ)
