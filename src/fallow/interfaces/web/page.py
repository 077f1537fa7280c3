"""The routes of a browser: the page, its files and its event stream. Its forms are in login.py and actions.py."""

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from fallow.core.activity import Activity
from fallow.core.version import __version__
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.web.actions import add_actions
from fallow.interfaces.web.caller import Refused, caller_of, who_asks
from fallow.interfaces.web.event_streams import Watchers
from fallow.interfaces.web.login import add_login
from fallow.interfaces.web.page_parts import Renderer
from fallow.interfaces.web.routes import Routes

_KINDS = {
    "page.css": "text/css",
    "actions.css": "text/css",
    "page.js": "text/javascript",
    "plots.css": "text/css",
    "plots.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class Files:
    """The files of the page as they were at the start, and an edition by which a browser knows when they are new."""

    def __init__(self) -> None:
        folder = files("fallow.interfaces.web") / "static"
        bodies = {name: (folder / name).read_bytes() for name in _KINDS}
        self._bodies = bodies | {"page.css": colours_in_css().encode() + bodies["page.css"]}
        digest = hashlib.sha256(__version__.encode() + b"".join(self._bodies.values()))
        self.edition = digest.hexdigest()[:12]
        """What changes whenever one of the files does."""

    def answer(self, name: str) -> Response:
        """Return one file; its address changes with its edition, so a browser may cache it."""
        body = self._bodies.get(name)
        if body is None:
            raise Refused(404, "usage", "there is no such file")
        return Response(body, media_type=_KINDS[name], headers={"cache-control": "private, max-age=86400"})


_PAPER = ("#ffffff", "#1a1e23")
_SOFT = 0.13


def colours_in_css() -> str:
    """Return the colours of the activities as CSS, the same as in the report; `--busy-soft` is a ground for text."""
    light = "".join(_both(activity, look.light, _PAPER[0]) for activity, look in LOOKS.items())
    dark = "".join(_both(activity, look.dark, _PAPER[1]) for activity, look in LOOKS.items())
    fills = "".join(f"rect.{each.value},path.{each.value}{{fill:var(--{each.value})}}" for each in Activity)
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{fills}\n"


def _both(activity: Activity, colour: str, paper: str) -> str:
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(paper[1:]), strict=True)
    soft = bytes(round(_SOFT * ink + (1 - _SOFT) * ground) for ink, ground in pairs)
    return f"--{activity.value}:{colour};--{activity.value}-soft:#{soft.hex()};"


def add_pages(pages: Routes, sources: Sources, renderer: Renderer, watchers: Watchers, static: Files) -> None:
    """Add the routes of the page of all GPUs, of its files and of its forms."""

    @pages.get("/")
    async def page(request: Request) -> Response:
        caller = caller_of(request)
        made = await renderer.page(
            **who_asks(caller),
            show=request.query_params.get("show", ""),
            span=request.query_params.get("span", ""),
            edition=static.edition,
            version=__version__,
        )
        return HTMLResponse(made)

    @pages.get("/static/{name}")
    async def file(request: Request) -> Response:
        return static.answer(request.path_params["name"])

    @pages.get("/stream")
    async def stream(_: Request) -> Response:
        return _Watching(watchers)

    add_login(pages, renderer, static)
    add_actions(pages, sources, renderer, static)


class _Watching(Response):
    """The answer to a watcher, which lasts as long as they watch."""

    def __init__(self, watchers: Watchers) -> None:
        self._watchers = watchers
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"]["head"]:
            await Response(media_type="text/event-stream")(scope, receive, send)
            return
        await self._watchers.attend(scope["state"]["connection"], send)
