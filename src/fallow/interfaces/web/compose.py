"""From the config to a page that is ready to be served."""

from collections.abc import Callable

from fallow.actuators.claims.folder import ClaimFolder, folder_path
from fallow.actuators.claims.protections import ProtectionFolder
from fallow.engine.config.model import Config
from fallow.engine.history.records import Records
from fallow.engine.machine.world import World
from fallow.interfaces.web.app import make_app
from fallow.interfaces.web.server import (
    PageServer,
    bound,
    listen,
    most_streams,
)
from fallow.interfaces.web.settings import Settings, checked, said_at_start
from fallow.interfaces.web.sources import Boards, MachineSources
from fallow.interfaces.web.token import token_in
from fallow.readers.proc import user_name


def open_page(
    config: Callable[[], Config], boards: Boards, records: Records, world: World, tell: Callable[[str], None]
) -> PageServer | None:
    """The page as the config has it; None if it has none. What is wrong with it is told before anything is served.

    Where it listens and its token stay as they are until it is opened anew; prices follow the config in force. Run
    it in the loop of the thread that serves, and stop it from any.
    """
    page, machine = config().page, config().machine
    if not page.enabled:
        return None
    token = None if page.token_file is None else token_in(page.token_file, tell)
    wanted = checked(Settings(page.listen, token, page.hosts, machine.every, most_streams()))
    listening = listen(wanted.address)
    settings = Settings(bound(wanted.address, listening), token, page.hosts, machine.every, most_streams())
    sources = MachineSources(
        boards,
        world.clock,
        # Of its own: it is used from another thread.
        ProtectionFolder(ClaimFolder(folder_path(world.environ)), user_name, world.proc, beside=world.protections),
        world.proc,
        records,
        world.user,
        lambda: config().machine.all_prices,
    )
    tell(said_at_start(settings))
    return PageServer(make_app(sources, settings, tell), listening)
