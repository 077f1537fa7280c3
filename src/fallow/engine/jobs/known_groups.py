"""Which of the protected groups a user is in, kept for some minutes. If that is unknown, the user is protected."""

from collections.abc import Callable, Sequence

from fallow.core.ports import Clock
from fallow.core.unknown import Unknown
from fallow.readers.accounts import groups_of

_AGAIN_AFTER_S = 300.0
Found = frozenset[str] | Unknown


class KnownGroups:
    """The protected groups of users."""

    def __init__(
        self,
        groups: Sequence[str],
        clock: Clock,
        say: Callable[[str], None],
        look_up: Callable[[str, Sequence[str]], Found] = groups_of,
    ) -> None:
        self._groups = groups
        self._clock = clock
        self._say = say
        self._look_up = look_up
        self._known: dict[str, tuple[float, Found]] = {}

    def of(self, user: str) -> Found:
        """Return those of the groups that the user is in, as they were some minutes ago at most."""
        now_s = self._clock.monotonic_s()
        at_s, before = self._known.get(user, (float("-inf"), frozenset[str]()))
        if now_s - at_s < _AGAIN_AFTER_S:
            return before
        found = self._look_up(user, self._groups)
        self._known[user] = now_s, found
        if isinstance(found, Unknown) and found != before:
            self._say(f"[protect] groups: those of {user} are {found}, so {user} is protected")
        return found
