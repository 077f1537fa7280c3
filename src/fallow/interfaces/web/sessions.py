"""Who has shown the token in a browser: a cookie means something only for as long as the page remembers it."""

import hashlib
import secrets
from collections.abc import Callable

LASTS_S = 30 * 86400
_MOST = 1000


class Sessions:
    """Sessions by what their cookies hash to. They end by logging out, with time, and with the daemon."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._begun: dict[bytes, float] = {}

    def begin(self) -> str:
        """The cookie of a new one. Where there are too many, the oldest ends."""
        cookie = secrets.token_urlsafe(32)
        while len(self._begun) >= _MOST:
            del self._begun[next(iter(self._begun))]
        self._begun[_hashed(cookie)] = self._now_s()
        return cookie

    def knows(self, cookie: str) -> bool:
        """Whether it is one of ours. It is looked up by its hash, so how long that takes tells nothing of it."""
        begun_s = self._begun.get(_hashed(cookie))
        return begun_s is not None and self._now_s() - begun_s < LASTS_S

    def end(self, cookie: str) -> None:
        """This one is over, whoever has a copy of its cookie."""
        self._begun.pop(_hashed(cookie), None)


def _hashed(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="replace")).digest()
