"""Which ports a process itself listens on."""

import os
import socket
import subprocess
import sys

from fallow.readers.listening import listening_ports
from fallow.readers.proc import Proc

LISTENS = """
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
input()
"""


def test_only_the_ports_of_the_process_itself_are_found() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as ours,
        socket.create_server(("127.0.0.2", 0)) as out_of_reach,
        subprocess.Popen(
            [sys.executable, "-c", LISTENS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        found = listening_ports(Proc(), os.getpid())
        assert ours.getsockname()[1] in found
        assert theirs not in found
        assert out_of_reach.getsockname()[1] not in found
        assert listening_ports(Proc(), other.pid) == [theirs]
        other.communicate("\n")
    assert listening_ports(Proc(), other.pid) == []


def test_a_server_on_every_address_is_found_of_both_families() -> None:
    with socket.create_server(("", 0)) as old, socket.create_server(("", 0), family=socket.AF_INET6) as new:
        found = listening_ports(Proc(), os.getpid())
        assert {old.getsockname()[1], new.getsockname()[1]} <= set(found)


def test_a_process_that_is_not_there_listens_nowhere() -> None:
    assert listening_ports(Proc(), 2**22 + 1) == []
