"""Who asks a question: on which machine, whether its daemon may answer, and where remarks go."""

from collections.abc import Callable

from fallow.engine.machine.world import World

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.client.daemon_client import DaemonClient


class Asker:
    """One question to a machine. The daemon answers if one runs."""

    def __init__(self, world: World, note: Callable[[str], None], detail: Callable[[str], None]) -> None:
        """`note` gets what a person should know beside the answer; `detail` what helps to find out why."""
        self.world = world
        self.note = note
        self.detail = detail
        self.daemon: DaemonClient = world.daemon(detail)
