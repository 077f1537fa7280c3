"""Who is connected to the page, and who makes way when there are too many.

A connection is silent while it owes us a request: before its first byte, in the middle of a head or a body, and
between two requests. Silent ones cost a place and do nothing with it, so they make way for whoever comes: the one
that has been silent for longest first. Once half of the places are taken, one address may have so many silent ones;
and so many in all at any time. This machine's own address is everybody's on it: who comes from there is counted by
their user, as the kernel tells it; where it does not, only the silent ones are counted.
"""

from collections import Counter
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from fallow.core.value import value

LOOPBACK = "127.0.0.1"
_USER = "user "


@value
class CrowdLimits:
    """How many there may be, and how long each may take."""

    connections: int
    of_address: int
    """From one address that is not this machine's own."""
    of_user: int
    """Of one user of this machine."""
    silent_of_address: int = 64
    """So many may be silent for longer than a moment: a request that is on its way is none."""
    moment_s: float = 1.0
    request_s: float = 10.0
    """For the whole of a request, head and body."""
    answer_s: float = 60.0
    """For the whole of an answer, however slowly it is read. Those who watch have a limit of their own."""


class Guest(Protocol):
    """A connection."""

    @property
    def place(self) -> str:
        """Where it comes from."""

    def cut(self) -> None:
        """End it now."""


class Crowd:
    """All connections. Those that are silent are kept in the order in which they fell silent."""

    def __init__(self, limits: CrowdLimits, now_s: Callable[[], float]) -> None:
        self.limits = limits
        self._now_s = now_s
        self._guests: set[Guest] = set()
        self._of: Counter[str] = Counter()
        self._silent: dict[Guest, float] = {}
        self._silent_of: dict[str, dict[Guest, None]] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, guest: Guest) -> None:
        """One more, who is silent. If that is too many, somebody goes: maybe the one who has just come."""
        limits, place = self.limits, guest.place
        self._guests.add(guest)
        self._of[place] += 1
        self.fall_silent(guest)
        silent = self._silent_of[place]
        first = next(iter(silent))
        lately = self._now_s() - self._silent[first] < limits.moment_s
        pressed = 2 * len(self._guests) > limits.connections
        crowded = pressed and len(silent) > limits.silent_of_address and not lately
        if crowded or (place != LOOPBACK and self._of[place] > self._most_of(place)):
            self._end(first)
        elif len(self._guests) > limits.connections:
            self._end(next(iter(self._silent)))

    def fall_silent(self, guest: Guest) -> None:
        """It owes us a request."""
        if guest in self._guests:
            self._silent[guest] = self._now_s()
            self._silent_of.setdefault(guest.place, {})[guest] = None

    def has_asked(self, guest: Guest) -> None:
        """Its request is there."""
        if guest in self._silent:
            del self._silent[guest]
            del self._silent_of[guest.place][guest]
            if not self._silent_of[guest.place]:
                del self._silent_of[guest.place]

    def leave(self, guest: Guest) -> None:
        """It is gone."""
        if guest in self._guests:
            self.has_asked(guest)
            self._guests.remove(guest)
            self._of[guest.place] -= 1
            if not self._of[guest.place]:
                del self._of[guest.place]

    def close(self) -> None:
        """End all that are left."""
        for guest in list(self._guests):
            self._end(guest)

    def _most_of(self, place: str) -> int:
        return self.limits.of_user if place.startswith(_USER) else self.limits.of_address

    def _end(self, guest: Guest) -> None:
        self.leave(guest)
        guest.cut()


def user_place(uid: int) -> str:
    """The place of a user of this machine."""
    return f"{_USER}{uid}"


def neighbourhood(address: str) -> str:
    """The address; of this machine's own the usual one, and of IPv6 the network: a host has as many as it likes."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if found.is_loopback:
        return LOOPBACK
    return address if isinstance(found, IPv4Address) else f"{IPv6Address(int(found) >> 64 << 64)}/64"
