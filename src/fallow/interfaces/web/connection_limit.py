"""How many connections there may be, and which one ends when there are too many.

A connection is silent while it owes a request: before its first byte, in the middle of a head or a body, and between
two requests. Silent ones make way first, the one that has been silent for longest. Each user of this machine, by the
kernel's word, and each address elsewhere has a share. Where all places are taken, the one with most connections gives
one up to one with fewer: a crowd of one shuts nobody else out.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Protocol

from fallow.core.value import value

LOOPBACK = "127.0.0.1"
_USER = "user "


@value
class ConnectionLimits:
    """How many there may be, and how long each may take."""

    connections: int
    of_user: int
    """Of one user of this machine."""
    of_address: int = 0
    """From one address elsewhere."""
    request_s: float = 10.0
    """For the whole of a request, head and body."""
    answer_s: float = 60.0
    """For the whole of an answer, however slowly it is read. Those who watch have a limit of their own."""


class Guest(Protocol):
    """A connection."""

    @property
    def owner(self) -> str:
        """Whose it is: a user, or an address."""

    @property
    def lasts(self) -> bool:
        """Whether what is sent on it has no end."""

    def cut(self) -> None:
        """End it now."""


class Connections:
    """All connections, by owner; of each owner in the order in which they last fell silent or asked."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._of: dict[str, dict[Guest, bool]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def enter(self, guest: Guest) -> None:
        """Take in one more, which is silent. If that is too many, one ends: maybe this one."""
        own = self._of.setdefault(guest.owner, {})
        own[guest] = True
        if len(own) > self._share_of(guest.owner):
            self._end(_first_silent(own))
        elif len(self) > self.limits.connections:
            most = max(self._of.values(), key=len)
            self._end(_first_silent(own if len(most) <= len(own) else most))

    def change(self, guest: Guest, *, silent: bool) -> None:
        """Note that it owes a request now, or that its request is there."""
        own = self._of.get(guest.owner, {})
        if own.pop(guest, None) is not None:
            own[guest] = silent

    def leave(self, guest: Guest) -> None:
        """Note that it has ended."""
        own = self._of.get(guest.owner, {})
        own.pop(guest, None)
        if not own:
            self._of.pop(guest.owner, None)

    def end_lasting(self) -> None:
        """End those that would never end by themselves."""
        for guest in self._all():
            if guest.lasts:
                self._end(guest)

    def close(self) -> None:
        """End all that are left."""
        for guest in self._all():
            self._end(guest)

    def _all(self) -> list[Guest]:
        return [guest for own in self._of.values() for guest in own]

    def _share_of(self, owner: str) -> int:
        if owner == LOOPBACK:  # of a user of this machine, and the kernel does not say of which
            return self.limits.connections
        return self.limits.of_user if owner.startswith(_USER) else self.limits.of_address

    def _end(self, guest: Guest) -> None:
        self.leave(guest)
        guest.cut()


def _first_silent(guests: dict[Guest, bool]) -> Guest:
    """Return the one that has been silent for longest; where all are being answered, the one that is so longest."""
    return next((guest for guest, silent in guests.items() if silent), next(iter(guests)))


def user(uid: int) -> str:
    """Return the owner that a user of this machine is."""
    return f"{_USER}{uid}"


def neighbourhood(address: str) -> str:
    """Return the address; for this machine's own the usual one, for IPv6 its network: a host has many addresses."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if found.is_loopback:
        return LOOPBACK
    return address if isinstance(found, IPv4Address) else f"{IPv6Address(int(found) >> 64 << 64)}/64"
