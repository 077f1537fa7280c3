"""What is let in: the right name, a body of some size, and, where it matters, somebody who knows the token.

Host       a page elsewhere whose name is made to point here (DNS rebinding) still asks under that name, so only known
           names are answered; an address cannot be made to point elsewhere
token      as `Authorization: Bearer`, or as the cookie of a session that began with it; after some wrong ones an
           address has to wait
cookie     counts for a change only if the page itself sent it (Origin): browsers send cookies from other ports too
headers    nothing from elsewhere, nothing inline, no frame, no guessing; those that make no sense are refused
"""

from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fallow.core.visibility import ANYBODY
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Settings
from fallow.interfaces.web.token import is_token
from fallow.interfaces.web.wrong_tokens import WrongTokens

COOKIE = "fallow_page"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers would then send no Origin with a form, and by that we know our own.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_SAFE = ("GET", "HEAD", "OPTIONS")
_LARGEST_BODY = 8192
_LONGEST_LENGTH = 10
TOO_MANY_WRONG = "too many wrong tokens came from this address; wait a minute"
_WITHOUT_TOKEN = ("/login", "/healthz", "/static/")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class AccessMiddleware:
    """Stands before the app."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions, wrong: WrongTokens) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions
        self._wrong = wrong
        self._names = {*_LOOPBACK_NAMES, settings.address.host, *(name.lower() for name in settings.hosts)}
        self._any_address = ip_address(_as_address(settings.address.host)).is_unspecified

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let in, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        shown = _shown_token(headers)
        state = scope["state"]
        state["address"] = scope["client"][0] if scope["client"] else ""
        state["known"] = self._knows_the_token(headers, scope["method"], shown, state["address"])
        # The token lets one protect GPUs; it does not make one the owner of what others run.
        state["viewer"] = ANYBODY
        state["same_origin"] = same_origin(headers)
        state["head"] = scope["method"] == "HEAD"
        if state["head"]:  # what a GET would say, and the server leaves its body out
            scope = {**scope, "method": "GET"}
        answer = self._refusal(scope, headers, shown) or self._app
        with suppress(ClientDisconnect):  # whoever has gone needs no answer, and nobody else an explanation
            await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers, shown: str | None) -> Response | None:
        path: str = scope["path"]
        if not self._is_our_name(headers.get("host", "")):
            sentence = "This page is not known by that name. Names are added with hosts in [page] of the config."
            for_programs = path.startswith(("/api/", "/metrics", "/healthz"))
            return (
                JSONResponse({"detail": sentence}, 421) if for_programs else PlainTextResponse(f"{sentence}\n", 421)
            )
        if scope["state"]["same_origin"] is None:
            return JSONResponse({"detail": "its Origin is not an address"}, 400)
        if shown is not None and self._settings.token is not None and not scope["state"]["known"]:
            return self._wrong_token(scope["state"]["address"])
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            return JSONResponse({"detail": "say how long it is"}, 411)
        if not length.isdecimal() or len(length) > _LONGEST_LENGTH or int(length) > _LARGEST_BODY:
            return JSONResponse({"detail": f"more than {_LARGEST_BODY} bytes are too many"}, 413)
        if self._settings.open_to_read or scope["state"]["known"] or path.startswith(_WITHOUT_TOKEN):
            return None
        if path == "/":
            return RedirectResponse("/login", 303)
        return JSONResponse({"detail": "this needs the token"}, 401, {"www-authenticate": "Bearer"})

    def _is_our_name(self, host: str) -> bool:
        name = _host_name(host)
        return name in self._names or (self._any_address and _is_address(name))

    def _knows_the_token(self, headers: Mapping[str, str], method: str, shown: str | None, address: str) -> bool:
        token = self._settings.token
        if token is None:
            return False
        if shown is not None:
            return not self._wrong.too_many_from(address) and is_token(shown, token)
        return self._sessions.knows(cookie_in(headers)) and (method in _SAFE or same_origin(headers) is True)

    def _wrong_token(self, address: str) -> Response:
        if self._wrong.too_many_from(address):
            return JSONResponse({"detail": TOO_MANY_WRONG}, 429, {"retry-after": "60"})
        self._wrong.count(address)
        return JSONResponse({"detail": "this is not the token"}, 401, {"www-authenticate": "Bearer"})


def cookie_in(headers: Mapping[str, str]) -> str:
    """The cookie of the page; empty if there is none."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE, "")


def same_origin(headers: Mapping[str, str]) -> bool | None:
    """Whether the page itself sent it, as the browser says; None if what it says makes no sense."""
    origin = headers.get("origin", "")
    try:
        return bool(origin) and urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    except ValueError:
        return None


def _shown_token(headers: Mapping[str, str]) -> str | None:
    kind, _, word = headers.get("authorization", "").partition(" ")
    return word.strip() if kind.lower() == "bearer" else None


def _host_name(host: str) -> str:
    name = host.lower().strip()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _as_address(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host


def _with_headers(send: Send) -> Send:
    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return tell
