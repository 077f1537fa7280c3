"""Find the ports of the loopback interface that one process itself listens on, as the kernel shows it."""

import errno
import os
from itertools import islice

from fallow.core.unknown import Unknown
from fallow.readers.listeners import Listener, listeners
from fallow.readers.proc import Proc
from fallow.readers.proc_files import pass_on_shortage

_MOST_DESCRIPTORS = 16384
_ENDED = (errno.ENOENT, errno.ESRCH)
_LOOKS = 2  # one may miss a socket while others are closed beside it
_REACHABLE = frozenset(
    (bytes(16), b"\x7f\x00\x00\x01".ljust(16, b"\0"), bytes(10) + b"\xff\xff\x7f\x00\x00\x01"),
)
"""The addresses, as the kernel has them, at which a server is reached through 127.0.0.1."""


def listening_ports(proc: Proc, pid: int) -> list[int] | Unknown:
    """Return the ports, in order; none if the process has ended or is in another network.

    Unknown if it may not be looked into, or if there is more to look at than is looked at.
    """
    try:
        own = _own_sockets(proc, pid)
    except OSError as error:
        pass_on_shortage(error)
        return [] if error.errno in _ENDED else Unknown(f"where pid {pid} listens may not be seen")
    if isinstance(own, Unknown) or not own:
        return own if isinstance(own, Unknown) else []
    for _ in range(_LOOKS):
        there = listeners()
        if isinstance(there, Unknown):
            return Unknown(f"where pid {pid} listens is {there}")
        found = {each.port for each in there if _is_reached(each, own)}
        if found:
            return sorted(found)
    return []


def _own_sockets(proc: Proc, pid: int) -> set[int] | Unknown:
    folder = f"{proc.root}/{pid}"
    if os.readlink(f"{folder}/ns/net") != os.readlink(f"{proc.root}/self/ns/net"):
        return set()
    with os.scandir(f"{folder}/fd") as entries:
        names = [entry.name for entry in islice(entries, _MOST_DESCRIPTORS + 1)]
    if len(names) > _MOST_DESCRIPTORS:
        return Unknown(f"where pid {pid} listens is not looked at: it has more than {_MOST_DESCRIPTORS} files open")
    own = set[int]()
    for name in names:
        try:
            target = os.readlink(f"{folder}/fd/{name}")
        except OSError as error:
            if error.errno not in _ENDED:
                raise
            continue
        if target.startswith("socket:["):
            own.add(int(target[len("socket:[") : -1]))
    return own


def _is_reached(listener: Listener, own: set[int]) -> bool:
    return listener.inode in own and listener.address in _REACHABLE
