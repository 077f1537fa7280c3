"""What cannot be told of a job that may be a server: it is neither parked nor stopped."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.engine.machine.world import World
from fallow.engine.park.ways import Ways
from fallow.readers.proc import Proc
from tests.waiting import end

SERVER = """
import os, resource, socket
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
server = socket.create_server(("127.0.0.1", 0))
kept = [os.dup(0) for _ in range(16400)]
print("listens", flush=True)
input()
"""


@pytest.fixture
def server() -> Iterator[Process]:
    """A vLLM with more descriptors than are looked at."""
    words = ["vllm", "-c", SERVER, "vllm", "serve"]
    process = subprocess.Popen(
        words, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    stat = Proc().stat(process.pid)
    assert stat is not None
    yield Process(stat.pid, stat.birth)
    end(process)


def test_a_server_whose_port_could_not_be_found_is_in_doubt(server: Process) -> None:
    job = ParkedJob(server, (server,), "ada", "job 1 (vllm)", (("GPU-1", 1),), 0.0)
    ways = Ways(World({}))
    assert ways.why_never(job, [server]) is None
    for try_it in (ways.could_park, ways.park):
        _, result = try_it(job, [server])
        assert (result.parked, result.in_doubt) == (False, True)
