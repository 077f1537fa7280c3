"""Find the user at the other end of a local connection, or behind a port: the kernel lists all sockets with users."""

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address

from fallow.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio.trsock import TransportSocket

_LISTENS = "0A"
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104  nothing is bound to it
_MAPPED = b"\0" * 10 + b"\xff\xff"  # how an address of IPv4 begins as one of IPv6
_SO_PEERGROUPS = 59
_MOST_GROUPS_BYTES = 1024  # Python asks for no more


@value
class _Row:
    """A TCP socket of this machine; its ends as /proc/net/tcp writes them."""

    here: str
    there: str
    state: str
    uid: int


def user_of(connection: "socket.socket | TransportSocket") -> int | None:
    """Return the uid at the other end; None if it is another machine, is closed, or the kernel does not say."""
    try:
        theirs, ours = _ends(*connection.getpeername()[:2]), _ends(*connection.getsockname()[:2])
        return next((row.uid for row in _rows() if row.here in theirs and row.there in ours), None)
    except (OSError, ValueError):
        return None


def listener_of(port: int, address: str = "127.0.0.1") -> int | None:
    """Return the uid of the server that listens on a port of this machine; None if there is none."""
    try:
        users = {row.here: row.uid for row in _rows() if row.state == _LISTENS}
        ends = [end for host in (address, *_ANYWHERE) for end in _ends(host, port)]
    except (OSError, ValueError):
        return None
    return next((users[end] for end in ends if end in users), None)


def is_within(connection: socket.socket) -> bool:
    """Return whether the other end of a connection is on this machine."""
    theirs, ours = connection.getpeername()[0], connection.getsockname()[0]
    return theirs == ours or ip_address(theirs.partition("%")[0]).is_loopback


def groups_of_peer(connection: "socket.socket | TransportSocket") -> frozenset[int]:
    """Return the supplementary groups that the process at the other end of a unix socket had when it connected.

    None of them if there are more than 256, or the kernel does not say.
    """
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_GROUPS_BYTES)
    except OSError:
        return frozenset()
    return frozenset(struct.unpack(f"={len(raw) // 4}I", raw))


def _rows() -> Iterator[_Row]:
    """Yield the sockets that belong to somebody: the kernel no longer knows the user of a closed one."""
    for name in ("tcp", "tcp6"):
        with suppress(FileNotFoundError), open(f"/proc/net/{name}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                _, here, there, state, _, _, _, uid, _, inode, *_ = line.split()
                if inode != "0":
                    yield _Row(here, there, state, int(uid))


def _ends(host: str, port: int) -> list[str]:
    """Return an address and port as the kernel lists them; one of IPv4 may be that of a socket of IPv6."""
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    forms = [address.packed] if address.version == 6 else [address.packed, _MAPPED + address.packed]
    words = [struct.unpack(f"={len(form) // 4}I", form) for form in forms]
    return [f"{''.join(f'{word:08X}' for word in each)}:{port:04X}" for each in words]
