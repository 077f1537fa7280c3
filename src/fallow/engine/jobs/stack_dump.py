"""Write the Python stacks of a job to a file."""

from collections.abc import Sequence

from fallow.actuators.files.stack_files import remove_oldest, stack_file_name
from fallow.actuators.process import py_spy
from fallow.actuators.process.helpers import Helpers
from fallow.core.findings import Outcome
from fallow.core.process import Process
from fallow.engine.machine.world import World

LIMIT_S = 30.0
WORDS = "write its Python stacks to a file"


def write_stacks(world: World, processes: Sequence[Process], user: str, first: Process, helpers: Helpers) -> Outcome:
    """Write the stacks of processes of a job to a new file in the state folder; the outcome names the file.

    `first` is the process by which the job is known. The files of earlier jobs go where all take too much.
    """
    file = stack_file_name(user, first.pid, first.birth)
    try:
        words = py_spy.dump(processes, world.proc, world.state_folder, file, helpers, world.environ)
        remove_oldest(world.state_folder)
    except Exception as error:  # noqa: BLE001  whatever breaks here, the job is asked all the same
        return Outcome(False, f"no stacks: {error}")
    return Outcome(True, words)
