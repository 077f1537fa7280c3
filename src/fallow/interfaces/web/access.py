"""The middleware of the page: it checks the host name, the size of the body and, where needed, the token.

Host       a page elsewhere whose name is made to point here (DNS rebinding) still sends that name, so only known
           names are answered; an address cannot be made to point elsewhere
token      as `Authorization: Bearer`, or as the cookie of a session that began with it; never in an address. A wrong
           one is answered after a second. With the token of a person a request is that user's
cookie     counts for a change only if the page itself sent it (Origin): browsers send cookies from other ports too,
           and to them; so it counts only for the user of this machine, or the address, that logged in
headers    nothing from elsewhere, nothing inline, no frame, no sniffing; malformed ones are refused
"""

import asyncio
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fallow.core.visibility import Viewer
from fallow.engine.daemon.sources import Peer
from fallow.interfaces.web.api_facts import problem
from fallow.interfaces.web.caller import NO_PROCESS, Caller
from fallow.interfaces.web.sessions import Sessions
from fallow.interfaces.web.settings import Settings, Visitor
from fallow.interfaces.web.way_back import SUBJECTS

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers would then send no Origin with a form, and the Origin shows that a form is ours.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_SAFE = ("GET", "HEAD", "OPTIONS")
_LARGEST_BODY = 8192
_LONGEST_LENGTH = 10
WRONG_TOKEN_S = 1.0
"""After how long a wrong token is answered, so that nobody finds one by trying."""
_WITHOUT_TOKEN = ("/login", "/healthz", "/static/")
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\[\]:@/\s]+))(:[0-9]{0,5})?")
_NO_COOKIE_NAME = re.compile(r"[^A-Za-z0-9.-]")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class PageAccess:
    """The middleware that decides which requests reach the app on the page."""

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self._app = app
        self.settings = settings
        self.sessions = sessions
        self._names = {*_LOOPBACK_NAMES, settings.address.host, *(name.lower() for name in settings.hosts)}
        # Through SSH tunnels several daemons are `localhost` to one browser, which keeps one cookie of each name.
        self.cookie = f"fallow_page_{_NO_COOKIE_NAME.sub('_', os.uname().nodename)}_{settings.address.port}"
        self._any_address = ip_address(_as_address(settings.address.host)).is_unspecified

    def cookie_in(self, headers: Mapping[str, str]) -> str:
        """Return the cookie of the page; empty if there is none."""
        return cookie_parser(headers.get("cookie", "")).get(self.cookie, "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why it is refused."""
        headers = Headers(scope=scope)
        shown = _shown_token(headers)
        state = scope["state"]
        state["page"] = self
        owner: str = state["connection"].owner
        state["same_origin"] = same_origin(headers)
        visitor = self._visitor(headers, scope, shown, owner)
        has_token = self.settings.has_token
        if visitor is None or visitor.person is None:
            # The shared token allows to protect GPUs; it does not make anybody the owner of other users' jobs.
            state["caller"] = Caller(knows_token=visitor is not None, has_token=has_token)
        else:
            who = visitor.person.account
            acts = Peer(NO_PROCESS, who.uid, who.gid)
            viewer = Viewer(who.name, everything=who.uid == 0)
            state["caller"] = Caller(viewer, knows_token=True, has_token=has_token, acts=acts, account=who)
        if shown is not None and has_token and visitor is None:
            await asyncio.sleep(WRONG_TOKEN_S)
        await answered(self._refusal(scope, headers, shown) or self._app, scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers, shown: str | None) -> Response | None:
        path: str = scope["path"]
        state = scope["state"]
        if not self._is_our_name(headers.get("host", "")):
            sentence = "This page is not known by that name. Names are added with hosts in [page] of the config."
            if path.startswith(("/api/", "/metrics", "/healthz")):
                return problem(421, "host", sentence)
            return PlainTextResponse(f"{sentence}\n", 421)
        if state["same_origin"] is None:
            return problem(400, "usage", "its Origin is not an address")
        if shown is not None and self.settings.has_token and not state["caller"].knows_token:
            return problem(401, "token", "this is not the token", {"www-authenticate": "Bearer"})
        too_long = body_refusal(headers)
        if too_long is not None:
            return too_long
        if self.settings.open_to_read or state["caller"].knows_token or path.startswith(_WITHOUT_TOKEN):
            return None
        if path == "/" or path.startswith(SUBJECTS):
            return RedirectResponse("/login", 303)
        return problem(401, "token", "this needs the token", {"www-authenticate": "Bearer"})

    def _is_our_name(self, host: str) -> bool:
        name = _host_name(host)
        return name in self._names or (self._any_address and _is_address(name))

    def _visitor(self, headers: Mapping[str, str], scope: Scope, shown: str | None, owner: str) -> Visitor | None:
        """Return who has shown a token, now or when their session began; None if nobody has."""
        if shown is not None:
            return self.settings.visitor(shown)
        if scope["method"] in _SAFE or same_origin(headers) is True:
            return self.sessions.visitor(self.cookie_in(headers), owner)
        return None


async def answered(answer: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request. HEAD is handled as GET, and the server leaves out the body."""
    scope["state"]["head"] = scope["method"] == "HEAD"
    if scope["state"]["head"]:
        scope = {**scope, "method": "GET"}
    with suppress(ClientDisconnect):  # a caller who has gone needs no answer
        await answer(scope, receive, _with_headers(send))


def body_refusal(headers: Mapping[str, str]) -> Response | None:
    """Return the refusal of a body that is too large or has no length; None if it is accepted."""
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers:
        return problem(411, "usage", "say how long it is")
    if not length.isdecimal() or len(length) > _LONGEST_LENGTH or int(length) > _LARGEST_BODY:
        return problem(413, "usage", f"more than {_LARGEST_BODY} bytes are too many")
    return None


def same_origin(headers: Mapping[str, str]) -> bool | None:
    """Return whether the page itself sent the request, by its Origin; None if the Origin is malformed."""
    origin = headers.get("origin", "")
    try:
        return bool(origin) and urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    except ValueError:
        return None


def _shown_token(headers: Mapping[str, str]) -> str | None:
    """Return the token that is shown; None if none is."""
    kind, _, word = headers.get("authorization", "").partition(" ")
    return word.strip() if kind.lower() == "bearer" else None


def _host_name(host: str) -> str:
    """Return the name in a Host, without its port; empty if it is more than a name and a port."""
    found = _HOST.fullmatch(host.lower().strip())
    return "" if found is None else found["address"] or found["name"].rstrip(".")


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
