"""Find the ports of the loopback interface that one process itself listens on, as the kernel shows it."""

import os
from itertools import islice

from fallow.readers.proc import Proc
from fallow.readers.proc_files import pass_on_shortage, read_whole

_MOST_DESCRIPTORS = 16384
_LISTENS = "0A"
_REACHABLE = frozenset(("00000000", "0100007F", "0" * 32, "0000000000000000FFFF00000100007F"))
"""The addresses, as the kernel writes them, at which a server is reached through 127.0.0.1."""


def listening_ports(proc: Proc, pid: int) -> list[int]:
    """Return the ports, in order; none if the process has ended, is in another network, or may not be looked into."""
    folder = f"{proc.root}/{pid}"
    try:
        if os.readlink(f"{folder}/ns/net") != os.readlink(f"{proc.root}/self/ns/net"):
            return []
        with os.scandir(f"{folder}/fd") as entries:
            names = [entry.name for entry in islice(entries, _MOST_DESCRIPTORS)]
    except OSError as error:
        pass_on_shortage(error)
        return []
    own = set[str]()
    for name in names:
        try:
            target = os.readlink(f"{folder}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            own.add(target[len("socket:[") : -1])
    found: set[int] = set()
    for table in ("tcp", "tcp6"):
        for line in (read_whole(f"{folder}/net/{table}") or b"").decode("ascii", "replace").splitlines()[1:]:
            found.update(_port(line.split(), own))
    return sorted(found)


def _port(fields: list[str], own: set[str]) -> list[int]:
    if len(fields) < 10 or fields[3] != _LISTENS or fields[9] not in own:
        return []
    address, _, port = fields[1].partition(":")
    return [int(port, 16)] if address in _REACHABLE and port else []
