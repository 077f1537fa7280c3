"""Find the user of a local TCP connection or of a server, and the groups of who connected to a unix socket."""

import socket
import struct
from asyncio.trsock import TransportSocket
from ipaddress import ip_address

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 20, 1
_ALL_STATES = 0xFFFFFFFF
_HEAD = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_NO_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # on any interface, any socket
_TO_PORT = struct.Struct("!6xH")
_ANSWER = struct.Struct("=4x48x12xII")
_LONGEST_ANSWER = 4096
_SO_PEERGROUPS = 59
_MOST_GROUPS_BYTES = 1024  # Python asks for no more


def user_of(connection: "socket.socket | TransportSocket") -> int | None:
    """Return the uid at the other end; None if it is another machine, is closed, or the kernel does not say.

    Never waits.
    """
    try:
        theirs, ours = connection.getpeername(), connection.getsockname()
        return _asked(connection.family, (theirs[0], theirs[1]), (ours[0], ours[1]))
    except (OSError, ValueError, struct.error):
        return None


def groups_of_peer(connection: "socket.socket | TransportSocket") -> frozenset[int]:
    """Return the supplementary groups that the process at the other end of a unix socket had when it connected.

    None of them if there are more than 256, or the kernel does not say.
    """
    try:
        raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_GROUPS_BYTES)
    except OSError:
        return frozenset()
    return frozenset(struct.unpack(f"={len(raw) // 4}I", raw))


def listener_of(port: int, address: str = "127.0.0.1", family: int = socket.AF_INET) -> int | None:
    """Return the uid of the server that listens on a port of this machine; None if there is none."""
    anybody = "0.0.0.0" if family == socket.AF_INET else "::"  # noqa: S104  nothing is bound to it
    try:
        return _asked(family, (address, port), (anybody, 0))
    except (OSError, ValueError, struct.error):
        return None


def is_within(connection: socket.socket) -> bool:
    """Return whether the other end of a connection is on this machine."""
    theirs, ours = connection.getpeername()[0], connection.getsockname()[0]
    return theirs == ours or ip_address(theirs.partition("%")[0]).is_loopback


def _asked(family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
    addresses = [ip_address(host.partition("%")[0]).packed.ljust(16, b"\0") for host in (theirs[0], ours[0])]
    wanted = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
    wanted += _PORTS.pack(theirs[1], ours[1]) + b"".join(addresses) + _NO_COOKIE
    flags = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    with socket.socket(socket.AF_NETLINK, flags, _NETLINK_SOCK_DIAG) as kernel:
        kernel.sendto(
            _HEAD.pack(_HEAD.size + len(wanted), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + wanted, (0, 0)
        )
        answer = kernel.recv(_LONGEST_ANSWER)
    _, kind, _, _, _ = _HEAD.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        return None  # there is no such socket here
    (to_port,) = _TO_PORT.unpack_from(answer, _HEAD.size)
    if to_port != ours[1]:
        return None  # it found a server that listens where there is no such connection any more
    uid, inode = _ANSWER.unpack_from(answer, _HEAD.size)
    return uid if inode else None  # the kernel no longer knows the user of a closed one
