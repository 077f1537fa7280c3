"""Which ports a process itself listens on."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from fallow.core.unknown import Unknown
from fallow.readers.listeners import listeners
from fallow.readers.listening import listening_ports
from fallow.readers.proc import Proc
from tests.places import LIMIT_S
from tests.waiting import end

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
        assert not isinstance(found, Unknown)
        assert ours.getsockname()[1] in found
        assert theirs not in found
        assert out_of_reach.getsockname()[1] not in found
        assert listening_ports(Proc(), other.pid) == [theirs]
        other.communicate("\n", timeout=LIMIT_S)
    assert listening_ports(Proc(), other.pid) == []


def test_a_server_on_every_address_is_found_of_both_families() -> None:
    with socket.create_server(("", 0)) as old, socket.create_server(("", 0), family=socket.AF_INET6) as new:
        found = listening_ports(Proc(), os.getpid())
        assert not isinstance(found, Unknown)
        assert {old.getsockname()[1], new.getsockname()[1]} <= set(found)


def test_a_process_that_is_not_there_listens_nowhere() -> None:
    assert listening_ports(Proc(), 2**22 + 1) == []


NEIGHBOUR = """
import resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept = [socket.create_server((f"127.9.{n // 250}.{n % 250 + 1}", 0), backlog=1) for n in range(7000)]
print("listens", flush=True)
input()
"""
MANY_FILES = """
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kept = [os.dup(0) for _ in range(16400)]
print("has them", flush=True)
input()
"""


@contextmanager
def started(script: str, times: int = 1) -> Iterator[list["subprocess.Popen[str]"]]:
    words = [sys.executable, "-c", script]
    processes = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(times)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline()
        yield processes
    finally:
        for process in processes:
            end(process)


def test_a_neighbour_who_listens_on_thousands_of_sockets_hides_nobodys_port() -> None:
    with ExitStack() as open_ones, started(NEIGHBOUR, 2):
        ours = [open_ones.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(30)]
        found = listening_ports(Proc(), os.getpid())
        assert not isinstance(found, Unknown)
        assert {each.getsockname()[1] for each in ours} <= set(found)


def test_where_not_all_sockets_are_looked_at_it_is_unknown_who_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0)):
        assert isinstance(listeners(most=1), Unknown)


def test_a_process_with_more_files_than_are_looked_at_is_not_said_to_listen_nowhere() -> None:
    with started(MANY_FILES) as (process,):
        assert isinstance(listening_ports(Proc(), process.pid), Unknown)
