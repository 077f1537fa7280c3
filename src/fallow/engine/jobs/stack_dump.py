"""Write the Python stacks of a job to a file."""

from collections.abc import Sequence

from fallow.actuators.process import py_spy
from fallow.actuators.process.helpers import Helpers
from fallow.core.findings import Outcome
from fallow.core.process import Process
from fallow.engine.machine.world import World

LIMIT_S = 30.0
WORDS = "write its Python stacks to a file"


def write_stacks(world: World, processes: Sequence[Process], name: str, helpers: Helpers) -> Outcome:
    """Write the stacks of these processes to a new file in the state folder; the outcome names the file."""
    file = f"stacks-{name}.txt"
    try:
        return Outcome(True, py_spy.dump(processes, world.proc, world.state_folder, file, helpers, world.environ))
    except Exception as error:  # noqa: BLE001  whatever breaks here, the job is asked all the same
        return Outcome(False, f"no stacks: {error}")
