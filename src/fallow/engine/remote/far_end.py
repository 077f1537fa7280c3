"""The other end of `fallow run --on`: run the command, and end it when the ssh connection ends."""

from fallow.actuators.process.foreground_job import Supervision
from fallow.core.process import Ended
from fallow.engine.jobs.compose import Program
from fallow.engine.machine.world import World

_FOR_EVER_S = 1e6


def run_while_connected(world: World, program: Program) -> Ended:
    """Run the command to its end; if our parent, which serves the connection, ends, the whole job is asked to."""
    path, command, environ = program
    started = Supervision(
        path,
        command,
        environ,
        table=world.proc,
        monotonic_s=world.clock.monotonic_s,
        ends_with_parent=True,
    )
    try:
        while (ended := started.wait_for_job(_FOR_EVER_S)) is None:
            pass
        return ended
    finally:
        started.close()
