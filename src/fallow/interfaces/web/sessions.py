"""Sessions of browsers that have shown the token: a cookie is valid only while the daemon remembers it."""

import hashlib
import secrets
from collections.abc import Callable

LASTS_S = 30 * 86400
_MOST = 1000


class Sessions:
    """Sessions by the hash of their cookie. They end by logging out, after a time, and with the daemon."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begun: dict[bytes, float] = {}

    def begin(self) -> str:
        """Return the cookie of a new session. If there are too many, the oldest ends."""
        cookie = secrets.token_urlsafe(32)
        while len(self._begun) >= _MOST:
            del self._begun[next(iter(self._begun))]
        self._begun[_hashed(cookie)] = self._now_s()
        return cookie

    def knows(self, cookie: str) -> bool:
        """Return whether the cookie is valid. It is looked up by its hash, so the time taken reveals nothing."""
        begun_s = self._begun.get(_hashed(cookie))
        return begun_s is not None and self._now_s() - begun_s < LASTS_S

    def end(self, cookie: str) -> None:
        """End the session of this cookie, for every copy of it."""
        self._begun.pop(_hashed(cookie), None)


def _hashed(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="replace")).digest()
