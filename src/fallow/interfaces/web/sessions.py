"""Sessions of browsers that have shown a token: a cookie is valid only while the daemon remembers it."""

import hashlib
import secrets
from collections.abc import Callable

from fallow.interfaces.web.settings import Visitor

LASTS_S = 30 * 86400
_MOST = 1000


class Sessions:
    """Sessions by the hash of their cookie. They end by logging out, after a time, and with the page."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begun: dict[bytes, tuple[float, Visitor, str]] = {}

    def begin(self, visitor: Visitor, owner: str) -> str:
        """Return the cookie of a new session. If there are too many, the oldest ends.

        `owner`: whose the connection is, a user of this machine or an address. The cookie is valid for them alone: a
        browser sends it to the servers of others too, if they are on other ports of this machine.
        """
        cookie = secrets.token_urlsafe(32)
        if len(self._begun) >= _MOST:
            del self._begun[next(iter(self._begun))]
        self._begun[_hashed(cookie)] = self._now_s(), visitor, owner
        return cookie

    def visitor(self, cookie: str, owner: str) -> Visitor | None:
        """Return whose the cookie is, if it is valid. It is looked up by its hash: the time taken reveals nothing."""
        begun_s, visitor, began_it = self._begun.get(_hashed(cookie), (0.0, None, ""))
        return visitor if began_it == owner and self._now_s() - begun_s < LASTS_S else None

    def end(self, cookie: str, owner: str) -> None:
        """End the session of this cookie, for every copy of it; nothing ends if another owner began it."""
        if self.visitor(cookie, owner) is not None:
            del self._begun[_hashed(cookie)]


def _hashed(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="replace")).digest()
