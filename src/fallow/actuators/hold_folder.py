"""Holds, kept where every user's fallow looks: a file each, in the folder of claims.

Whose hold it is, is whose file it is, which nobody can forge; the folder is sticky, so only they or root can take it
away. In doubt a hold holds: one that cannot be read covers everything.
"""

import json
import math
from collections.abc import Callable
from contextlib import suppress

from fallow.actuators.claim_folder import ClaimFolder
from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.holds import Everything, Hold, Target, is_over, parse_target
from fallow.core.units import printable

_PREFIX = "hold-"
_END_OF_TIME_S = 4e9


class HoldFolder:
    """All holds on this machine."""

    def __init__(self, folder: ClaimFolder, user_name: Callable[[int], str]) -> None:
        self._folder = folder
        self._user_name = user_name
        self._identity = folder.identity
        self._last: list[Hold] = []
        self._kept: list[Hold] = []

    def place(self, target: Target, until_wall_s: float, why: str) -> int:
        """Place a hold; its number."""
        content = json.dumps({"target": str(target), "until": until_wall_s, "why": printable(why)}).encode()
        number = 1 + max(self._numbers(), default=0)
        try:
            while not self._folder.add(f"{_PREFIX}{number}", content):
                number += 1
        except OSError as error:
            raise NotPermitted(f"cannot place a hold in {self._folder.path}: {error.strerror}") from None
        return number

    def active(self, wall_s: float) -> list[Hold]:
        """Those that last; what is over is cleared away where we may."""
        found: list[Hold] = []
        try:
            self._folder.refresh()
            numbers = self._numbers()
        except (NotPermitted, OSError) as error:
            return [Hold(0, Everything(), math.inf, f"the holds cannot be read: {error}", "somebody")]
        for number in sorted(numbers):
            hold = self._read(number)
            if hold is None:
                continue
            if is_over(hold, wall_s):
                with suppress(OSError):
                    self._folder.remove(f"{_PREFIX}{number}")
            else:
                found.append(hold)
        return found + self._cleaned_away(found, wall_s)

    def _cleaned_away(self, found: list[Hold], wall_s: float) -> list[Hold]:
        """Holds that were seen in a folder which is gone: nobody has released them, so they hold on."""
        if self._folder.identity != self._identity:
            self._kept += self._last
            self._identity = self._folder.identity
        self._last = found
        self._kept = [hold for hold in self._kept if not is_over(hold, wall_s)]
        return self._kept

    def release(self, number: int) -> None:
        """End a hold before its time."""
        name = f"{_PREFIX}{number}"
        try:
            self._folder.remove(name)
        except FileNotFoundError:
            raise WrongUsage(f"there is no hold {number}; see: fallow hold --list") from None
        except PermissionError:
            owner = self._user_name(self._folder.owner(name))
            who = owner if owner == "root" else f"{owner} or root"
            raise NotPermitted(f"hold {number} is {owner}'s; only {who} can release it") from None

    def _numbers(self) -> list[int]:
        names = [name.removeprefix(_PREFIX) for name in self._folder.names() if name.startswith(_PREFIX)]
        return [int(name) for name in names if name.isascii() and name.isdigit()]

    def _read(self, number: int) -> Hold | None:
        name = f"{_PREFIX}{number}"
        try:
            content, uid = self._folder.read(name)
        except FileNotFoundError:
            return None  # released this moment
        except OSError as error:
            return Hold(number, Everything(), math.inf, f"its file cannot be read: {error.strerror}", "somebody")
        owner = self._user_name(uid)
        try:
            fields = json.loads(content)
            target, until_s = parse_target(str(fields["target"])), float(fields["until"])
            # A time that makes no sense is no end; and what others wrote must not reach a terminal as it is.
            until_s = until_s if until_s < _END_OF_TIME_S else math.inf
            return Hold(number, target, until_s, printable(str(fields["why"])), owner)
        except (ValueError, KeyError, TypeError, RecursionError, WrongUsage):
            return Hold(number, Everything(), math.inf, "its file makes no sense", owner)
