"""The routes of a browser: the page, its files, its event stream, and the forms for the token and for protections."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from importlib.resources import files
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

import fallow
from fallow.core.activity import Activity
from fallow.core.units import span_s
from fallow.engine.daemon.sources import Sources
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.web.access import COOKIE, TOO_MANY_WRONG, PageAccess, cookie_in
from fallow.interfaces.web.caller import Refused, caller_of, demand_change, done
from fallow.interfaces.web.event_streams import Watchers
from fallow.interfaces.web.page_parts import Renderer
from fallow.interfaces.web.sessions import LASTS_S
from fallow.interfaces.web.token import is_token

_KINDS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_LONGEST_WHY = 200


class Files:
    """The files of the page, and an edition by which a browser knows when they are new."""

    @cached_property
    def edition(self) -> str:
        """Return what changes whenever one of the files does."""
        digest = hashlib.sha256(fallow.__version__.encode() + b"".join(self._bodies.values()))
        return digest.hexdigest()[:12]

    @cached_property
    def _bodies(self) -> dict[str, bytes]:
        folder = files("fallow.interfaces.web") / "static"
        bodies = {name: (folder / name).read_bytes() for name in _KINDS}
        return bodies | {"page.css": colours_in_css().encode() + bodies["page.css"]}

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


def make_pages(sources: Sources, renderer: Renderer, watchers: Watchers, static: Files) -> APIRouter:
    """Return all routes that are not for programs."""
    pages = APIRouter(include_in_schema=False)

    @pages.get("/", response_class=HTMLResponse)
    async def page(request: Request) -> str:
        caller = caller_of(request)
        return await renderer.page(
            known=caller.may_change,
            can_be_known=caller.has_token,
            show=request.query_params.get("show", ""),
            mine=caller.viewer.user,
            edition=static.edition,
            version=fallow.__version__,
        )

    @pages.get("/static/{name}")
    async def file(name: str) -> Response:
        return static.answer(name)

    @pages.get("/stream")
    async def stream(request: Request) -> Response:
        if watchers.is_full or watchers.has_share(request.scope["state"]["connection"].owner):
            raise Refused(503, "full", "too many are watching", {"retry-after": "30"})
        return _Watching(watchers)

    _add_login(pages, renderer, static)
    _add_protection_forms(pages, sources)
    return pages


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


def _add_login(pages: APIRouter, renderer: Renderer, static: Files) -> None:
    @pages.get("/login", response_class=HTMLResponse)
    async def ask(request: Request) -> str:
        _demand_token(request)
        return renderer.login(edition=static.edition, wrong=False)

    @pages.post("/login")
    async def take(request: Request) -> Response:
        access, token = _demand_token(request)
        _demand_same_origin(request)
        if access.wrong.too_many_from(request.state.address):
            raise Refused(429, "token", TOO_MANY_WRONG, {"retry-after": "60"})
        if not is_token((await _form(request)).get("token", "").strip(), token):
            access.wrong.count(request.state.address)
            return HTMLResponse(renderer.login(edition=static.edition, wrong=True), 403)
        answer, cookie = RedirectResponse("/", 303), access.sessions.begin()
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, cookie, max_age=LASTS_S, httponly=True, samesite="strict", secure=secure)
        return answer

    @pages.post("/logout")
    async def forget(request: Request) -> Response:
        access, _ = _demand_token(request)
        _demand_same_origin(request)
        access.sessions.end(cookie_in(request.headers))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer


def _add_protection_forms(pages: APIRouter, sources: Sources) -> None:
    @pages.post("/protections")
    async def place(request: Request) -> Response:
        peer = demand_change(request)
        form = await _form(request)
        subject, why = form.get("subject", ""), form.get("why", "")[:_LONGEST_WHY]
        done(lambda: sources.protect(subject, span_s(form.get("for", "")), why, peer))
        return RedirectResponse("/#protections-title", 303)

    @pages.post("/protections/{number}/release")
    async def release(request: Request, number: int) -> Response:
        peer = demand_change(request)
        done(lambda: sources.release_protection(number, peer))
        return RedirectResponse("/#protections-title", 303)


def _demand_token(request: Request) -> tuple[PageAccess, str]:
    """Return the access to the page, and its token; raise Refused if there is none, as on the socket."""
    access: PageAccess | None = getattr(request.state, "page", None)
    if access is None or access.settings.token is None:
        raise Refused(404, "usage", "there is no token: the config names no token_file")
    return access, access.settings.token


def _demand_same_origin(request: Request) -> None:
    if not request.state.same_origin:
        raise Refused(403, "permission", "only the page itself may send this")


async def _form(request: Request) -> Mapping[str, str]:
    body = (await request.body()).decode(errors="replace")
    try:
        fields = parse_qs(body, max_num_fields=10)
    except ValueError:
        raise Refused(400, "usage", "this is no form of the page") from None
    return {name: values[0] for name, values in fields.items()}
