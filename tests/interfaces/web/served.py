"""The page on a real socket, in a thread as in the daemon, with whatever board a test hangs up."""

import asyncio
import http.client
import json
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from fallow.core.value import replace
from fallow.engine.config.listen_address import Address
from fallow.engine.config.model import Machine
from fallow.engine.config.persons import KnownPerson
from fallow.engine.daemon.publisher import Publisher
from fallow.engine.daemon.sources import Sources
from fallow.engine.history.file import HistoryFile
from fallow.engine.history.journal import Journal
from fallow.engine.history.reader import HistoryReader, open_history
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.engine.stop.for_person import StopsForPersons
from fallow.interfaces.web.access import PageAccess
from fallow.interfaces.web.app import make_app
from fallow.interfaces.web.server import HttpServer, bound, listen
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Settings, checked
from fallow.readers.secret import hashed
from tests.places import LIMIT_S

TOKEN = "a-token-that-nobody-guesses"
NEVER_S = 10 * LIMIT_S


class Answer:
    """What came back."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Site:
    """A page that is served."""

    def __init__(self, address: Address, app: Any, home: pathlib.Path) -> None:
        self.address = address
        self.app = app
        self.home = home
        self.url = f"http://{address}"

    def ask(
        self, path: str, method: str = "GET", body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, with exactly these headers."""
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=LIMIT_S)
        try:
            sent = dict(headers or {})
            if isinstance(body, dict):
                body = json.dumps(body)
                sent.setdefault("content-type", "application/json")
            connection.request(method, path, body, sent)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def with_token(self, path: str, method: str = "GET", body: Any = None) -> Answer:
        """The same from somebody who knows the token."""
        return self.ask(path, method, body, {"authorization": f"Bearer {TOKEN}"})


class Built:
    """A page that listens, and that nobody serves yet."""

    def __init__(self, server: HttpServer, address: Address, app: Any) -> None:
        self.server = server
        self.address = address
        self.app = app

    async def run(self, ready: Callable[[], None]) -> None:
        async with self.app.router.lifespan_context(self.app):
            await self.server.run(ready)


@contextmanager
def built(
    boards: Publisher,
    home: pathlib.Path,
    *,
    token: str | None = None,
    persons: tuple[KnownPerson, ...] = (),
    stops: StopsForPersons | None = None,
    pretend: Address | None = None,
    hosts: tuple[str, ...] = (),
    clock: Any = None,
    past: Callable[[str], HistoryReader | None] = open_history,
    every_s: float = NEVER_S,
) -> Iterator[Built]:
    """The page, on a port of loopback. `pretend` is the address that it takes itself to listen on.

    The board is never too old for /healthz, for which the GPUs are to be looked at every so many seconds, unless a
    test is about that.
    """
    home.mkdir(exist_ok=True)
    state, made_clock = str(home / "state"), clock or SystemClock()
    world = World({"FALLOW_CLAIM_DIR": str(home / "claims")}, clock=made_clock)
    journal = Journal(state, made_clock.wall_s, print)
    history = HistoryFile(state, print)
    sources = Sources(
        world,
        boards,
        journal.last,
        lambda: past(state) or history.past(),
        lambda: Machine.model_construct(every=every_s),
        Future,
        lambda _: Future(),
        tuple,
        stops or StopsForPersons(world, journal),
    )
    listening = listen(Address("127.0.0.1", 0))
    address = bound(Address("127.0.0.1", 0), listening)
    token_hash = None if token is None else hashed(token)
    settings = checked(Settings(pretend or address, token_hash, hosts, persons))
    app = make_app(sources)
    access = PageAccess(app, settings, Sessions(made_clock.monotonic_s))
    try:
        yield Built(HttpServer(access, listening), address, app)
    finally:
        sources.folder.close()
        history.close()


@contextmanager
def served(boards: Publisher, home: pathlib.Path, **settings: Any) -> Iterator[Site]:
    """The same while it is served."""
    with built(boards, home, **settings) as page:
        ready = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(page.run(ready.set)), name="server")
        thread.start()
        try:
            assert ready.wait(LIMIT_S)
            yield Site(replace(page.address), page.app, home)
        finally:
            page.server.stop()
            thread.join(LIMIT_S)
            assert not thread.is_alive(), "the page must end when it is told to"


def hall(make: Callable[[float], Any] | None = None) -> Publisher:
    """A hall with a board in it."""
    made = Publisher()
    if make is not None:
        made.publish(make(SystemClock().wall_s()))
    return made
