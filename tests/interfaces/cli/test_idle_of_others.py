"""What the daemon's API tells of others' jobs by conditions: no more than the kernel would."""

import http.client
import json
import subprocess
import sys
from typing import Any

import pytest

from tests.actuators.claims.test_users import ADA, BOB
from tests.interfaces.cli.test_visibility import Stage, stage
from tests.places import LIMIT_S
from tests.waiting import PROGRAM_S, until

__all__ = ["stage"]
pytestmark = pytest.mark.as_root
WORKS = """env -u CUDA_VISIBLE_DEVICES sh -c 'while [ -d /proc/$PPID ]; do :; done' > /dev/null 2>&1 &
echo up; read line"""
# Asks on several connections at once as a user; prints status and answer of each.
ASKS = """
import json, os, socket, sys
from http.client import HTTPConnection
path, uid, query, times = sys.argv[1:]
os.setresgid(*[int(uid)] * 3)
os.setresuid(*[int(uid)] * 3)
asked = []
for _ in range(int(times)):
    connection = HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", "/api/v1/idle?" + query)
    asked.append(connection)
answers = [connection.getresponse() for connection in asked]
print(json.dumps([[answer.status, json.loads(answer.read())] for answer in answers]))
"""


def ask(stage: Stage, uid: int, query: str, times: int = 1) -> list[Any]:
    words = [sys.executable, "-c", ASKS, stage.users.environ["FALLOW_SOCKET"], str(uid), query, str(times)]
    told: list[Any] = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=LIMIT_S).stdout)
    return told


@pytest.fixture
def port(stage: Stage) -> int:
    """The port of the page of root's daemon, once ada's job is there: idle on GPU 0, at work on the CPU."""
    holder = stage.start(["sh", "-c", WORKS], ADA, CUDA_VISIBLE_DEVICES="0")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    port = stage.be_up()[1]
    until(lambda: ask(stage, ADA, "gpus=0")[0][1]["idle"] is True, pause_s=PROGRAM_S)
    return port


@pytest.mark.parametrize("condition", ["io:1KB", "net:1KB", "jupyter:9h"])
@pytest.mark.more
def test_what_the_kernel_hides_of_others_the_api_does_not_tell(stage: Stage, port: int, condition: str) -> None:
    page = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    page.request("GET", f"/api/v1/idle?gpus=0&unless={condition}")
    answer = page.getresponse()
    on_page = answer.status, json.loads(answer.read())
    page.close()
    for status, told in (*ask(stage, BOB, f"unless=cpu:1&unless={condition}"), on_page):
        assert status == 403
        assert told["detail"] == (
            f"GPU 0 has processes of others, of whom '{condition}' is not told; name GPUs that only you hold, or ask "
            "by `fallow idle --unless`, with your own rights"
        )
    assert [status for status, _ in ask(stage, BOB, f"gpus=1&unless={condition}")] == [200], "nobody is there"
    for uid in (ADA, 0):
        assert [status for status, _ in ask(stage, uid, f"gpus=0&unless={condition}")] == [200]


@pytest.mark.more
def test_of_others_the_api_tells_only_whether_they_use_the_cpu(stage: Stage, port: int) -> None:
    ((_, bob),), ((_, ada),) = ask(stage, BOB, "gpus=0&unless=cpu:1"), ask(stage, ADA, "gpus=0&unless=cpu:1")
    assert (bob["idle"], ada["idle"]) == (False, False)
    assert bob["gpus"][0]["because"].endswith(", but its processes use the CPU")
    assert "of a core" in ada["gpus"][0]["because"]


@pytest.mark.more
def test_nobody_has_two_questions_by_conditions_open(stage: Stage, port: int) -> None:
    told = ask(stage, BOB, "gpus=0&unless=cpu:1", times=8)
    assert {status for status, _ in told} == {200, 429}
    assert next(each["detail"] for status, each in told if status == 429) == (
        "your last question with `unless` is not answered yet"
    )
    assert [status for status, _ in ask(stage, BOB, "gpus=0&unless=cpu:1")] == [200], "it is open no longer"
