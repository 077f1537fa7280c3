"""Which of the protected groups a user is in, looked up beside the loop and kept for some minutes.

The database of users may be on a server that is slow or away. Until it has answered, it is unknown, and so the user
is protected.
"""

from collections.abc import Callable, Sequence

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.engine.machine.background import Background
from fallow.readers.accounts import groups_of

_AGAIN_AFTER_S = 300.0
_FAILED_AGAIN_AFTER_S = 30.0
_FORGOTTEN_AFTER_S = 3600.0
_MOST_AT_ONCE = 8
_MOST_KNOWN = 10_000
NOT_YET = Unknown("they were not looked up yet", asked=False)

Found = frozenset[str] | Unknown
LookUp = Callable[[str, Sequence[str]], Found]


class KnownGroups:
    """The protected groups of users. `of` returns at once."""

    def __init__(
        self, groups: Sequence[str], clock: Clock, say: Callable[[str], None], look_up: LookUp = groups_of
    ) -> None:
        self._groups = groups
        self._clock = clock
        self._say = say
        self._look_up = look_up
        self._known: dict[str, tuple[float, Found]] = {}
        self._pending: set[str] = set()
        self._said: set[str] = set()

    def of(self, user: str) -> Found:
        """Return those of the groups that the user is in, as they were some minutes ago at most."""
        now_s = self._clock.monotonic_s()
        known = self._known.get(user)
        if known is None:
            self._want(user)
            return self._known.get(user, (now_s, NOT_YET))[1]
        at_s, found = known
        if now_s - at_s >= (_FAILED_AGAIN_AFTER_S if isinstance(found, Unknown) else _AGAIN_AFTER_S):
            self._want(user)
        return NOT_YET if now_s - at_s >= _FORGOTTEN_AFTER_S else found

    def _want(self, user: str) -> None:
        if user in self._pending or len(self._pending) >= _MOST_AT_ONCE:
            return
        self._pending.add(user)
        Background[str](f"groups of {user}", self._look, self._say, 0.0).give_last(user)

    def _look(self, user: str) -> None:
        at_s = self._clock.monotonic_s()
        found: Found = Unknown("looking them up failed")
        try:
            found = self._look_up(user, self._groups)
        finally:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[user] = at_s, found
            self._pending.discard(user)
        sentence = f"[protect] groups: those of {user} are {found}, so {user} is protected"
        if isinstance(found, Unknown) and sentence not in self._said and len(self._said) < _MOST_KNOWN:
            self._said.add(sentence)
            self._say(sentence)
