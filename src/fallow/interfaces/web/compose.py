"""Open the page that the config describes."""

from collections.abc import Callable

from starlette.types import ASGIApp

from fallow.core.ports import Clock
from fallow.engine.config.model import Page
from fallow.interfaces.web.access import PageAccess
from fallow.interfaces.web.server import HttpServer, bound, listen, page_limits
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Settings, checked, said_at_start
from fallow.interfaces.web.token import token_in
from fallow.interfaces.web.wrong_tokens import WrongTokens


def open_page(app: ASGIApp, page: Page, clock: Clock, tell: Callable[[str], None]) -> HttpServer | None:
    """Return the page that the config describes; None if it has none. Raise an error if it cannot be opened.

    Run it in the event loop of the server's thread; stop it from any thread.
    """
    if not page.enabled:
        return None
    token = None if page.token_file is None else token_in(page.token_file, tell)
    wanted = checked(Settings(page.listen, token, page.hosts))
    listening = listen(wanted.address)
    settings = Settings(bound(wanted.address, listening), token, page.hosts)
    tell(said_at_start(settings))
    access = PageAccess(app, settings, Sessions(clock.monotonic_s), WrongTokens(tell))
    return HttpServer(access, listening, page_limits())
