"""`fallow up --reload`: make the daemon load its config again, and print the result."""

from typing import Any

from fallow.core.errors import ConfigWrong, FallowError, NoDaemon
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.engine.client.daemon_client import DaemonClient
from fallow.engine.client.socket_path import own_socket, sockets_to_ask
from fallow.engine.client.unix_http import NoAnswer
from fallow.engine.machine.world import World
from fallow.interfaces.stderr import Stderr

_GIVE_IT_ONE = "write one there and reload again, or end the daemon and run: fallow up --config FILE"


def reload(world: World, voice: Stderr) -> int:
    """Ask the daemon to reload, and print its answer."""
    place = own_socket(world.environ)
    # Where only the machine's daemon runs, it says itself who may make it reload.
    places = [each for each in (place, sockets_to_ask(world.environ)[0]) if each is not None]
    daemon = DaemonClient(world.environ, world.clock, world.simulated, voice.detail, places)
    try:
        came = daemon.reload()
    except NoAnswer as error:
        raise NoDaemon(f"the daemon does not answer: {error}") from None
    if came is None:
        lost = "; one that was started without XDG_RUNTIME_DIR has no socket, and hears SIGHUP alone" * (
            place is None
        )
        raise NoDaemon(
            f"there is no fallow up of {world.user} to reload{lost}",
            "start one: fallow up; or as root: systemctl start fallow",
        )
    if came.get("ok") is True:
        file = came.get("file")
        sentence = printable(str(came.get("sentence")))
        print(f"{sentence}; {_GIVE_IT_ONE}" if file is None else f"{sentence}: {printable(str(file))}")
        return 0
    rows = came.get("mistakes") or ()
    mistakes = [_mistake(row) for row in rows]
    if not mistakes:
        raise FallowError(printable(str(came.get("sentence"))))
    raise ConfigWrong(printable(str(came.get("file"))), mistakes)


def _mistake(row: dict[str, Any]) -> Mistake:
    sentence, where, suggestion = (printable(str(row.get(name))) for name in ("sentence", "where", "suggestion"))
    return Mistake(sentence, where, row.get("line"), suggestion)
