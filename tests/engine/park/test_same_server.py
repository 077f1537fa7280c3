"""The server of a parked job is asked only while the kernel says that it is the one that was parked."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fallow.core.parked import ParkedJob, ParkWay
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.engine.park.asleep import Sleepers
from fallow.readers.proc import Proc
from tests.places import LIMIT_S

SERVER = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
if len(sys.argv) > 1:
    os.setresuid(int(sys.argv[1]), int(sys.argv[1]), 0)
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
asked = connection.recv(65536).split(b" HTTP")[0].decode()
print("asked", asked, flush=True)
"""


class Listener:
    """A real server that says the first thing that it is asked; and the parked job that knows it."""

    def __init__(self, *words: str) -> None:
        line = [sys.executable, "-c", SERVER, *words]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        stat = Proc().stat(self.process.pid)
        assert stat is not None
        server = Process(stat.pid, stat.birth)
        self.job = ParkedJob(
            *(server, (server,), "ada", "job 1 (vllm)", (("GPU-1", 1),), 0.0, ParkWay.VLLM),
            server=server,
            port=self.port,
            server_uid=os.getuid(),
        )

    def was_asked(self) -> str:
        self.process.kill()
        return self.process.communicate(timeout=LIMIT_S)[0]


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    started: list[Listener] = []
    yield started
    for each in started:
        each.process.kill()
        each.process.wait(LIMIT_S)


def is_asked_nothing(listener: Listener, job: ParkedJob) -> bool:
    sleepers = Sleepers(World({}))
    assert isinstance(sleepers.is_parked(job), Unknown)
    assert not sleepers.wake(job).ok
    assert sleepers.park(job)[1].in_doubt
    return listener.was_asked() == ""


def test_the_server_that_was_parked_is_asked(listeners: list[Listener]) -> None:
    listeners.append(one := Listener())
    Sleepers(World({})).is_parked(one.job)
    assert one.was_asked() == "asked GET /is_sleeping\n"


def test_a_process_that_has_the_number_of_a_server_that_ended_is_asked_nothing(listeners: list[Listener]) -> None:
    listeners.append(one := Listener())
    assert one.job.server is not None
    before = Process(one.job.server.pid, one.job.server.birth - 1)
    assert is_asked_nothing(one, replace(one.job, server=before))


@pytest.mark.parametrize("uid", [None, os.getuid() + 1])
def test_a_server_of_another_user_than_at_parking_is_asked_nothing(
    listeners: list[Listener], uid: int | None
) -> None:
    listeners.append(one := Listener())
    assert is_asked_nothing(one, replace(one.job, server_uid=uid))


@pytest.mark.as_root
def test_a_server_that_became_another_users_is_asked_nothing(listeners: list[Listener]) -> None:
    listeners.append(one := Listener("61001"))
    assert is_asked_nothing(one, one.job)


def test_a_port_that_another_process_of_the_user_listens_on_is_asked_nothing(listeners: list[Listener]) -> None:
    listeners.extend([one := Listener(), other := Listener()])
    assert is_asked_nothing(other, replace(one.job, port=other.port))
    assert one.was_asked() == ""
