"""What a browser asks for: the page, its files, its stream, the form for the token, and the forms for protections."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

import fallow
from fallow.core.activity import Activity
from fallow.core.errors import FallowError
from fallow.core.units import span_s
from fallow.interfaces.render import colours
from fallow.interfaces.web.access import COOKIE, TOO_MANY_WRONG, cookie_in
from fallow.interfaces.web.api import need_token, refused
from fallow.interfaces.web.event_streams import Streams
from fallow.interfaces.web.page_parts import Renderer
from fallow.interfaces.web.sessions import LASTS_S, Sessions
from fallow.interfaces.web.settings import Settings
from fallow.interfaces.web.sources import Sources
from fallow.interfaces.web.token import is_token
from fallow.interfaces.web.wrong_tokens import WrongTokens

_KINDS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_LONGEST_WHY = 200


class Files:
    """The files of the page, ready to be sent, and an edition by which a browser knows when they are new."""

    def __init__(self) -> None:
        folder = files("fallow.interfaces.web") / "static"
        self._bodies = {name: (folder / name).read_bytes() for name in _KINDS}
        self._bodies["page.css"] = colours_in_css().encode() + self._bodies["page.css"]
        digest = hashlib.sha256(fallow.__version__.encode() + b"".join(self._bodies.values()))
        self.edition = digest.hexdigest()[:12]

    def answer(self, name: str) -> Response:
        """One file; its address changes with its edition, so a browser may keep it."""
        body = self._bodies.get(name)
        if body is None:
            raise HTTPException(404, "there is no such file")
        return Response(body, media_type=_KINDS[name], headers={"cache-control": "private, max-age=86400"})


def colours_in_css() -> str:
    """The activities' colours, which the report has too."""
    light, dark = (
        "".join(f"--{activity.value}:{shade[activity]};" for activity in Activity)
        for shade in (colours.LIGHT, colours.DARK)
    )
    fills = "".join(f"rect.{activity.value}{{fill:var(--{activity.value})}}" for activity in Activity)
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{fills}\n"


def make_pages(
    sources: Sources,
    settings: Settings,
    renderer: Renderer,
    streams: Streams,
    static: Files,
    sessions: Sessions,
    wrong: WrongTokens,
) -> APIRouter:
    """All that is not for programs."""
    pages = APIRouter(include_in_schema=False)

    @pages.get("/", response_class=HTMLResponse)
    async def page(request: Request) -> str:
        return await renderer.page(
            known=request.state.known,
            can_be_known=settings.token is not None,
            edition=static.edition,
            version=fallow.__version__,
        )

    @pages.get("/static/{name}")
    async def file(name: str) -> Response:
        return static.answer(name)

    @pages.get("/stream")
    async def stream() -> Response:
        if streams.is_full:
            raise HTTPException(503, "too many are watching", {"retry-after": "30"})
        return _Watching(streams)

    _add_login(pages, settings, renderer, static, sessions, wrong)
    _add_protection_forms(pages, sources)
    return pages


class _Watching(Response):
    """The answer to whoever wants to watch: as long as they do."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"]["head"]:
            await Response(media_type="text/event-stream")(scope, receive, send)
            return
        await self._streams.attend(scope["state"]["wire"], send)


def _add_login(
    pages: APIRouter, settings: Settings, renderer: Renderer, static: Files, sessions: Sessions, wrong: WrongTokens
) -> None:
    @pages.get("/login", response_class=HTMLResponse)
    async def ask() -> str:
        _need_a_token_to_exist(settings)
        return renderer.login(edition=static.edition, wrong=False)

    @pages.post("/login")
    async def take(request: Request) -> Response:
        token = _need_a_token_to_exist(settings)
        _need_same_origin(request)
        if wrong.too_many_from(request.state.address):
            raise HTTPException(429, TOO_MANY_WRONG, {"retry-after": "60"})
        if not is_token((await _form(request)).get("token", "").strip(), token):
            wrong.count(request.state.address)
            return HTMLResponse(renderer.login(edition=static.edition, wrong=True), 403)
        answer = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, sessions.begin(), max_age=LASTS_S, httponly=True, samesite="strict", secure=secure)
        return answer

    @pages.post("/logout")
    async def forget(request: Request) -> Response:
        _need_same_origin(request)
        sessions.end(cookie_in(request.headers))
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer


def _add_protection_forms(pages: APIRouter, sources: Sources) -> None:
    @pages.post("/protections")
    async def place(request: Request) -> Response:
        need_token(request)
        form = await _form(request)
        try:
            for_s = span_s(form.get("for", ""))
            sources.protect(form.get("subject", ""), for_s, form.get("why", "")[:_LONGEST_WHY])
        except FallowError as error:
            raise refused(error) from None
        return RedirectResponse("/#protections-title", 303)

    @pages.post("/protections/{number}/release")
    async def release(request: Request, number: int) -> Response:
        need_token(request)
        try:
            sources.release_protection(number)
        except FallowError as error:
            raise refused(error) from None
        return RedirectResponse("/#protections-title", 303)


def _need_a_token_to_exist(settings: Settings) -> str:
    if settings.token is None:
        raise HTTPException(404, "there is no token: the config names no token_file")
    return settings.token


def _need_same_origin(request: Request) -> None:
    if not request.state.same_origin:
        raise HTTPException(403, "only the page itself may send this")


async def _form(request: Request) -> Mapping[str, str]:
    body = (await request.body()).decode(errors="replace")
    try:
        fields = parse_qs(body, max_num_fields=10)
    except ValueError:
        raise HTTPException(400, "this is no form of the page") from None
    return {name: values[0] for name, values in fields.items()}
