"""Limit the number of connections, choose which one ends when there are too many, and give each owner its turns.

A connection is silent while its client owes a request: before the first byte, within a head or a body, and between
two requests. Silent connections end first, the one that has been silent for longest. Each user of this machine, as
the kernel reports it, and each remote address has a share. If all connections are in use, the owner with most of them
loses one to an owner with fewer: nobody can shut out everybody else. An owner who asks too often waits
before a request is read.

One person may have thousands of users without an account (subuid(5)). So where it matters who has most, all of these
are one crowd.
"""

import os
from collections import Counter
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from fallow.core.value import value
from fallow.readers.proc import user_name

if TYPE_CHECKING:
    from fallow.interfaces.web.connection import Connection

LOOPBACK = "127.0.0.1"
_USER = "user "
_NAMELESS = "user without an account"
_MOST_TURNS = 64
_MOST_KNOWN = 4096


@value
class ConnectionLimits:
    """How many connections there may be, and how long each may take."""

    connections: int
    of_user: int
    """The most connections of one user of this machine."""
    of_address: int = 0
    """The most connections from one remote address."""
    request_s: float = 10.0
    """The time for a whole request, head and body."""
    answer_s: float = 60.0
    """The time for a whole answer, however slowly it is read. Event streams have their own limit."""
    asks_per_s: float = 40.0
    """The most requests of one owner in a second, after a burst of as many."""


class Connections:
    """All connections by owner; those of each owner in the order in which they last became silent or active."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._of: dict[str, dict[Connection, bool]] = {}
        self._turns: dict[str, float] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def enter(self, guest: "Connection") -> None:
        """Add a connection, which is silent. If that is too many, one ends, possibly this one."""
        own = self._of.setdefault(guest.owner, {})
        own[guest] = True
        if len(own) > self._share_of(guest.owner):
            self._end(_first_silent(own))
        elif len(self) > self.limits.connections:
            self._end(self._who_makes_way(guest))

    def change(self, guest: "Connection", *, silent: bool) -> None:
        """Note that the connection became silent, or that its request arrived."""
        own = self._of.get(guest.owner, {})
        if own.pop(guest, None) is not None:
            own[guest] = silent

    def leave(self, guest: "Connection") -> None:
        """Note that the connection has ended."""
        own = self._of.get(guest.owner, {})
        own.pop(guest, None)
        if not own:
            self._of.pop(guest.owner, None)

    def seconds_to_turn(self, owner: str, now_s: float) -> float:
        """Count a request of this owner, and return in how many seconds it may be read; at most 0 for now.

        Nobody waits longer than a request on each connection would take, however many have hung up meanwhile.
        """
        asks_per_s = self.limits.asks_per_s
        turn_s = max(self._turns.get(owner, 0.0), now_s - 1.0) + 1 / asks_per_s
        if len(self._turns) > _MOST_TURNS:
            self._turns = {each: at_s for each, at_s in self._turns.items() if at_s > now_s - 1.0}
        self._turns[owner] = min(turn_s, now_s + self.limits.connections / asks_per_s)
        return self._turns[owner] - now_s

    def end_lasting(self) -> None:
        """End all streams that have no end."""
        for guest in self._all():
            if guest.lasts:
                self._end(guest)

    def close(self) -> None:
        """End all connections that are left."""
        for guest in self._all():
            self._end(guest)

    def _who_makes_way(self, guest: "Connection") -> "Connection":
        """Return the connection that ends for a new one: of the crowd with most, of one who comes first last."""
        others = {owner: guests for owner, guests in self._of.items() if not comes_first(owner)}
        lasting = next((each for guests in others.values() for each in guests if each.lasts), None)
        if lasting is not None:
            return lasting
        own, others = self._of[guest.owner], others or self._of
        sizes, its_crowd = Counter[str](), crowd_of(guest.owner)
        for owner, guests in others.items():
            sizes[crowd_of(owner)] += len(guests)
        largest = max(sizes, key=lambda crowd: sizes[crowd])
        most = max((guests for owner, guests in others.items() if crowd_of(owner) == largest), key=len)
        has_fewer = len(own) < len(most) if largest == its_crowd else sizes[its_crowd] < sizes[largest]
        return _first_silent(most if has_fewer or comes_first(guest.owner) else own)

    def _all(self) -> list["Connection"]:
        return [guest for own in self._of.values() for guest in own]

    def _share_of(self, owner: str) -> int:
        if owner == LOOPBACK:  # a user of this machine, but the kernel does not say which
            return self.limits.connections
        return self.limits.of_user if is_user(owner) else self.limits.of_address

    def _end(self, guest: "Connection") -> None:
        self.leave(guest)
        guest.cut()


def _first_silent(guests: dict["Connection", bool]) -> "Connection":
    """Return the connection that has been silent for longest; if none is silent, the one answered for longest."""
    return next((guest for guest, silent in guests.items() if silent), next(iter(guests)))


def comes_first(owner: str) -> bool:
    """Return whether nobody may shut this owner out: root, and the user of the daemon."""
    return owner in (user(0), user(os.geteuid()))


def user(uid: int) -> str:
    """Return the name of a user of this machine as an owner."""
    return f"{_USER}{uid}"


def is_user(owner: str) -> bool:
    """Return whether an owner is a user of this machine, by what the kernel says, and not an address."""
    return owner.startswith(_USER)


@lru_cache(maxsize=_MOST_KNOWN)  # to look up a user may take long; who gets an account later stays in the crowd
def crowd_of(owner: str) -> str:
    """Return with whom an owner is counted together: all users without an account are one, any other is alone."""
    number = owner.removeprefix(_USER)
    return _NAMELESS if is_user(owner) and user_name(int(number)) == number else owner


def neighbourhood(address: str) -> str:
    """Return the owner for an address: one for all loopback addresses, the /64 network for IPv6."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:  # where one socket listens for both
        found = found.ipv4_mapped
    if found.is_loopback:
        return LOOPBACK
    return str(found) if isinstance(found, IPv4Address) else f"{IPv6Address(int(found) >> 64 << 64)}/64"
