"""Who waits leaves nothing in the claim folder, however the wait ends; what is killed is swept by the next."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from time import thread_time

import pytest

from fallow.actuators.claims.claims import read_label
from fallow.actuators.claims.queue import sweep
from fallow.actuators.files import ofd_locks
from fallow.core.reservations import Claim
from fallow.engine.machine.claim_holders import lives
from fallow.engine.machine.world import World
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.waiting import end

pytestmark = pytest.mark.more

ADA = 61001
UUID = "GPU-fa110000-0000-4000-8000-000000000000"
WAITS = [
    ("run", "--wait", "--", "true"),
    ("run", "--wait", "--dry-run", "--", "true"),
    ("run", "--wait", "--idle-timeout", "1h", "--", "true"),
    ("pick", "--wait"),
]


def labels(fallow: Fallow) -> list[str]:
    """What the folder holds besides the files of GPUs."""
    return [path.name for path in pathlib.Path(fallow.environ["FALLOW_CLAIM_DIR"]).glob("waiting-*")]


@pytest.fixture
def full(simulated: Fallow) -> subprocess.Popen[str]:
    """A job that has all GPUs."""
    job = simulated.start("run", "-n", "4", "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    return job


def in_line(fallow: Fallow, *words: str) -> subprocess.Popen[str]:
    waiting = fallow.start(*words)
    assert waiting.stderr is not None
    assert "waiting for 1 GPU" in waiting.stderr.readline()
    assert len(labels(fallow)) == 1
    return waiting


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("words", WAITS, ids=" ".join)
def test_a_signal_ends_a_wait_and_leaves_no_label(
    simulated: Fallow, words: tuple[str, ...], number: signal.Signals
) -> None:
    waiting = in_line(simulated, *words)
    waiting.send_signal(number)
    _, rest = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == -number
    assert "Traceback" not in rest
    assert labels(simulated) == []


@pytest.mark.parametrize("words", [("run", "--", "true"), ("pick",)], ids=" ".join)
def test_the_label_of_a_launch_that_was_killed_is_swept_by_the_next_one_that_does_not_wait(
    simulated: Fallow, full: subprocess.Popen[str], words: tuple[str, ...]
) -> None:
    waiting = in_line(simulated, "run", "--wait", "--", "true")
    end(waiting)
    assert len(labels(simulated)) == 1
    full.communicate("\n", timeout=LIMIT_S)
    assert simulated(*words).returncode == 0
    assert labels(simulated) == []


# Sends itself a signal when it begins to leave the line, because the time to wait is over.
LATE = """
import os, signal, sys
from fallow.interfaces.cli import entry

def late(frame, event, argument):
    if frame.f_code.co_name == "leave":
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGTERM)

sys.argv = ["fallow", *sys.argv[1:]]
sys.settrace(late)
entry()
"""


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("words", [("run", "--wait", "1s", "--", "true"), ("pick", "--wait", "1s")], ids=" ".join)
def test_a_signal_at_the_moment_of_leaving_leaves_no_label(simulated: Fallow, words: tuple[str, ...]) -> None:
    line = [sys.executable, "-c", LATE, *words]
    done = subprocess.run(line, env=simulated.environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert labels(simulated) == []


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    return World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_SIMULATE": "1xH100"})


def put(world: World, ticket: int, pid: int, birth: int) -> None:
    assert world.folder.add(f"waiting-{ticket}", json.dumps({"pid": pid, "birth": birth}).encode())


def swept(world: World) -> set[str]:
    before = set(world.folder.names())
    sweep(world.folder, lives(world))
    return before - set(world.folder.names())


def test_a_label_is_swept_if_its_pid_is_another_process_by_now(world: World) -> None:
    me = Proc().stat(os.getpid())
    assert me is not None
    put(world, 10**9 + 1, me.pid, me.birth)
    put(world, 10**9 + 2, me.pid, me.birth - 1)
    assert swept(world) == {f"waiting-{10**9 + 2}"}


def test_a_label_whose_place_is_held_stays_though_its_process_cannot_be_seen(world: World) -> None:
    """It may wait in another container, where pids are others."""
    fd = world.folder.open(UUID)
    other = world.folder.open(UUID)
    put(world, 10**9 + 1, 4_100_000, 7)
    assert ofd_locks.take(other, 10**9 + 1)
    assert swept(world) == set()
    os.close(other)
    assert swept(world) == {f"waiting-{10**9 + 1}"}
    os.close(fd)


@pytest.mark.as_root
def test_a_user_looks_only_at_labels_of_their_own_to_sweep_them(world: World) -> None:
    """Nobody else's can be removed, and each of them would be looked for in the lines of all GPUs."""
    put(world, 10**9 + 1, 4_100_000, 7)
    put(world, 10**9 + 2, 4_100_000, 8)
    os.chown(f"{world.folder.path}/waiting-{10**9 + 2}", ADA, ADA)
    asked: list[int | None] = []
    folder = world.folder
    os.seteuid(ADA)
    try:
        sweep(folder, lambda label: asked.append(label.birth) is None)
    finally:
        os.seteuid(0)
    assert asked == [8]


def test_many_labels_and_locks_delay_a_launch_by_a_bounded_time(world: World) -> None:
    fd = world.folder.open(UUID)
    for place in range(20_000):
        ofd_locks.take(fd, 10**9 + 2 * place)
    for ticket in range(200):
        put(world, 10**9 + 10**6 + ticket, 4_100_000, 7)
    began_s = thread_time()
    assert swept(world), "some of them"
    assert thread_time() - began_s < 0.1
    os.close(fd)


def test_a_label_that_names_no_process_is_of_none_that_lives(world: World) -> None:
    assert not lives(world)(read_label(False, b"{}"))
    assert not lives(world)(Claim(False, pid=4_100_000, birth=1))
