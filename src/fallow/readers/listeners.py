"""Ask the kernel which TCP sockets listen at this machine: all of them, or it is unknown.

The tables in /proc hold all connections of everybody, so that a neighbour could fill them; here the kernel leaves all
but the listening sockets out.
"""

import socket
import struct
from collections.abc import Iterator

from fallow.core.errors import SHORTAGES
from fallow.core.unknown import Unknown
from fallow.core.value import value

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _DONE = 20, 3
_ASK_FOR_ALL = 0x1 | 0x300
_WAS_CHANGED = 0x10  # the kernel met changes while it told, and may have left some out
_LISTEN_STATE = 1 << 10
_HEAD = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBBI48x")
_ROW = struct.Struct("=16x4x2s2x16s16x4x8x12xII")
_LONGEST_ANSWER = 1 << 16
_ANSWERS_WITHIN_S = 5.0
_MOST = 300_000
_TRIES = 3


@value
class Listener:
    """A socket that listens."""

    inode: int
    address: bytes
    """As the kernel has it: 16 bytes, of which IPv4 uses the first four."""
    port: int


def listeners(most: int = _MOST) -> list[Listener] | Unknown:
    """Return all TCP sockets that listen in our network; Unknown if there are more, or the kernel does not say."""
    for _ in range(_TRIES):
        try:
            found = _listeners(most)
        except (OSError, struct.error) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                raise
            return Unknown(f"not told by the kernel: {error}")
        if found is not None:
            return found
    return Unknown("not to be told: sockets come and go too fast")


def _listeners(most: int) -> list[Listener] | Unknown | None:
    """Return all; None if some came or went meanwhile, so that others may have been left out."""
    found: list[Listener] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for flags, answer in _answers(family):
            if flags & _WAS_CHANGED:
                return None
            if answer is not None:
                port, address, _, inode = _ROW.unpack_from(answer)
                found.append(Listener(inode, address, int.from_bytes(port, "big")))
            if len(found) > most:
                return Unknown(f"not to be told: more than {most} sockets listen")
    return found


def _answers(family: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the flags of each message and the message; None at the end."""
    wanted = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0, _LISTEN_STATE)
    flags = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, flags, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWERS_WITHIN_S)
        kernel.sendto(_HEAD.pack(_HEAD.size + len(wanted), _SOCK_DIAG_BY_FAMILY, _ASK_FOR_ALL, 1, 0) + wanted, (0, 0))
        while True:
            answer, at = kernel.recv(_LONGEST_ANSWER), 0
            while at < len(answer):
                length, kind, marks, _, _ = _HEAD.unpack_from(answer, at)
                if kind == _DONE:
                    yield marks, None
                    return
                if kind != _SOCK_DIAG_BY_FAMILY or length < _ROW.size:
                    raise OSError("it answers with an error")
                yield marks, answer[at : at + length]
                at += (length + 3) & ~3
