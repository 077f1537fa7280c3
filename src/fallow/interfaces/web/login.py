"""The forms with which a browser shows a token, and forgets it."""

import asyncio
from typing import Protocol

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fallow.interfaces.web.access import WRONG_TOKEN_S, PageAccess
from fallow.interfaces.web.caller import Refused
from fallow.interfaces.web.forms import form_of
from fallow.interfaces.web.page_parts import Renderer
from fallow.interfaces.web.routes import Routes
from fallow.interfaces.web.sessions import LASTS_S
from fallow.interfaces.web.way_back import back_from, way_back


class Edition(Protocol):
    """What knows the edition of the page's files."""

    @property
    def edition(self) -> str:
        """Return what changes whenever one of the files does."""
        ...


def add_login(pages: Routes, renderer: Renderer, static: Edition) -> None:
    """Add the routes for logging in and out."""

    @pages.get("/login")
    async def ask(request: Request) -> Response:
        access = _demand_token(request)
        return HTMLResponse(_form(access, back_from(request), wrong=False))

    @pages.post("/login")
    async def take(request: Request) -> Response:
        access = _demand_token(request)
        _demand_same_origin(request)
        owner: str = request.state.connection.owner
        form = await form_of(request)
        back, visitor = way_back(form.get("back", "")), access.settings.visitor(form.get("token", "").strip())
        if visitor is None:
            await asyncio.sleep(WRONG_TOKEN_S)
            return HTMLResponse(_form(access, back, wrong=True), 403)
        access.sessions.end(access.cookie_in(request.headers), owner)
        answer, cookie = RedirectResponse(back, 303), access.sessions.begin(visitor, owner)
        secure = request.headers.get("origin", "").startswith("https://")  # a proxy speaks TLS, and we do not
        answer.set_cookie(access.cookie, cookie, max_age=LASTS_S, httponly=True, samesite="strict", secure=secure)
        return answer

    @pages.post("/logout")
    async def forget(request: Request) -> Response:
        access = _demand_token(request)
        _demand_same_origin(request)
        access.sessions.end(access.cookie_in(request.headers), request.state.connection.owner)
        answer = RedirectResponse(back_from(request), 303)
        answer.delete_cookie(access.cookie, httponly=True, samesite="strict")
        return answer

    def _form(access: PageAccess, back: str, *, wrong: bool) -> str:
        settings = access.settings
        return renderer.login(
            edition=static.edition,
            wrong=wrong,
            back=back,
            is_shared=settings.token_hash is not None,
            has_persons=bool(settings.persons),
        )


def _demand_token(request: Request) -> PageAccess:
    """Return the access to the page; raise Refused if there is no token, as on the socket."""
    access: PageAccess | None = getattr(request.state, "page", None)
    if access is None or not access.settings.has_token:
        raise Refused(404, "usage", "there is no token: the config names no token_file")
    return access


def _demand_same_origin(request: Request) -> None:
    if not request.state.same_origin:
        raise Refused(403, "permission", "only the page itself may send this")
