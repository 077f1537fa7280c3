"""Count wrong tokens by who shows them: a user of this machine, or another address.

They are reported in one line a minute; who shows too many must wait.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from fallow.interfaces.web.connection_limit import is_user

_MOST = 60
_MOST_ADDRESSES = 65536
_ELSEWHERE = "elsewhere"


class WrongTokens:
    """Counts wrong tokens by owner, in the running loop. After some within a minute, no more are checked."""

    def __init__(self, tell: Callable[[str], None], minute_s: float = 60.0) -> None:
        self._tell = tell
        self._minute_s = minute_s
        self._counts: Counter[str] = Counter()

    def too_many_from(self, owner: str) -> bool:
        """Return whether the owner of a connection must wait, even with the right token."""
        return self._counts[self._place(owner)] >= _MOST

    def count(self, owner: str) -> None:
        """Count one wrong token. The first of a minute is reported at once, the others together at its end."""
        place = self._place(owner)
        if not self._counts:
            self._tell(f"the page was given a wrong token from {place}; more within a minute are told together")
            asyncio.get_running_loop().call_later(self._minute_s, self._end_minute)
        self._counts[place] += 1

    def _place(self, owner: str) -> str:
        """Return where an owner is counted: each by themselves; from some addresses on, all others together."""
        own = is_user(owner) or owner in self._counts or len(self._counts) < _MOST_ADDRESSES
        return owner if own else _ELSEWHERE

    def _end_minute(self) -> None:
        total = self._counts.total()
        if total > 1:
            (most, of_most), *others = self._counts.most_common()
            also = "" if not others else f", the others from {len(others)} more"
            self._tell(
                f"the page was given {total} wrong tokens within a minute, {of_most} of them from {most}{also}"
            )
        self._counts.clear()
