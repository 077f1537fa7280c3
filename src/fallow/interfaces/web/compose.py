"""Open the page that the config describes."""

from collections.abc import Callable

from starlette.types import ASGIApp

from fallow.core.errors import FallowError
from fallow.core.ports import Clock
from fallow.core.value import replace
from fallow.engine.config.model import Page
from fallow.engine.config.persons import KnownPerson, known_persons, shared_token
from fallow.interfaces.web.access import PageAccess
from fallow.interfaces.web.server import HttpServer, bound, listen
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Settings, checked, said_at_start
from fallow.interfaces.web.token import token_in
from fallow.readers.secret import hashed


def open_page(app: ASGIApp, page: Page, clock: Clock, tell: Callable[[str], None]) -> HttpServer | None:
    """Return the page that the config describes; None if it has none. Raise an error if it cannot be opened.

    Run it in the event loop of the server's thread; stop it from any thread.
    """
    if not page.enabled:
        return None
    token = None if page.token_file is None else hashed(token_in(page.token_file, tell))
    wanted = checked(Settings(page.listen, token, page.hosts, known_persons(page.person, token)))
    listening = listen(wanted.address)
    settings = replace(wanted, address=bound(wanted.address, listening))
    tell(said_at_start(settings))
    access = PageAccess(app, settings, Sessions(clock.monotonic_s))
    server = HttpServer(access, listening)
    server.has_old_tokens = lambda: _tokens(page) != (settings.token_hash, settings.persons)
    return server


def _tokens(page: Page) -> tuple[bytes | None, tuple[KnownPerson, ...] | None]:
    """Return the tokens that the files hold now; None for the persons if something is wrong with one of them."""
    token = shared_token(page.token_file)
    try:
        return token, known_persons(page.person, token)
    except FallowError:
        return token, None
