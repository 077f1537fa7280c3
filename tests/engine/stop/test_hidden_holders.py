"""Holders that the driver does not list, on the stand-in driver with device files that processes have open."""

import json
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from threading import Thread

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.real_owners import eventually
from tests.standin import Process, World
from tests.waiting import end, until

GIB = 2**30
OPENER = """
import mmap, sys
kept = [open(sys.argv[2]) for _ in range(int(sys.argv[1]) - 1)]  # and Python opens what it maps once more
mapped = mmap.mmap(kept[0].fileno(), 1, prot=mmap.PROT_READ)
print("open", flush=True)
input()
"""
TAKER = """
import socket, sys
line = socket.socket(fileno=0)
kept = socket.recv_fds(line, 1, 16)
print("open", flush=True)
line.recv(1)
"""
FORKER = f"""
import os, subprocess, sys
if sys.argv[3] == "child":
    child = subprocess.Popen([sys.executable, "-c", {OPENER!r}, *sys.argv[1:3]], stdin=0)
    child.wait()
else:
    subprocess.Popen([sys.executable, "-c", "input()"], stdin=0)
    exec({OPENER!r})
"""
Open = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def cards(make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path) -> World:
    """2 idle cards with device files."""
    world = make_world(cards=2)
    fallow.environ.update(world.nodes(tmp_path / "dev"))
    for node in (tmp_path / "dev").iterdir():
        node.write_bytes(b" ")  # so that it can be mapped
    return world


@pytest.fixture
def opened(fallow: Fallow, cards: World) -> Iterator[Open]:
    """Start a process that has the device file of a card open so often."""
    started: list[subprocess.Popen[str]] = []

    def start(times: int, card: int = 0, name: str = sys.executable, script: str = OPENER, *more: str) -> object:
        process = subprocess.Popen(
            [name, "-c", script, str(times), f"{fallow.environ['FALLOW_DEVICES']}/nvidia{card}", *more],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        return process

    yield start
    for process in started:
        end(process)


@pytest.fixture
def freezer() -> Iterator[Callable[[int], None]]:
    """Put a process into state D, in which no signal reaches it, as a hang in the driver does."""
    if os.geteuid() != 0:
        pytest.skip("making a cgroup needs root")
    folder = pathlib.Path("/sys/fs/cgroup/freezer") / f"fallow-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no process can be frozen here: {error}")

    def freeze(pid: int) -> None:
        (folder / "cgroup.procs").write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN")
        until(lambda: (folder / "freezer.state").read_text().strip() == "FROZEN")

    yield freeze
    (folder / "freezer.state").write_text("THAWED")
    eventually(lambda: not (folder / "cgroup.procs").read_text() and folder.rmdir() is None, "an empty cgroup")


def offered(fallow: Fallow) -> list[int]:
    """The processes that a stop of GPU 0 would stop."""
    done = fallow("stop", "0", "--dry-run", "--json")
    if done.returncode == 0:
        return [pid for job in json.loads(done.stdout)["jobs"] for pid in job["pids"]]
    assert (done.returncode, done.stdout) == (1, "")
    return []


@pytest.mark.more
def test_who_has_begun_cuda_on_a_card_with_memory_of_nobody_is_found_and_stopped(
    fallow: Fallow, cards: World, opened: Open
) -> None:
    cards[0].memory_used = 20 * GIB
    left_behind = opened(4)

    def give_back() -> None:
        left_behind.wait(LIMIT_S)
        cards[0].memory_used = 0

    assert offered(fallow) == [left_behind.pid]
    shown = fallow("stop", "0", "--dry-run").stdout
    assert f"has {fallow.environ['FALLOW_DEVICES']}/nvidia0 open, and is not listed by the driver" in shown
    driver = Thread(target=give_back)
    driver.start()
    done = fallow("stop", "0", "--yes")
    driver.join(LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPU 0: 20.0 GiB are free again" in done.stdout


@pytest.mark.more
def test_memory_that_stays_held_after_the_stop_is_said_and_is_no_success(
    fallow: Fallow, cards: World, opened: Open
) -> None:
    cards[0].memory_used = 20 * GIB
    opened(4)
    done = fallow("stop", "0", "--yes")
    assert done.returncode == 1
    assert "20.0 GiB are still held by no process that is listed" in done.stdout


@pytest.mark.more
def test_one_that_hangs_in_the_kernel_is_named_with_the_reason(
    fallow: Fallow, cards: World, opened: Open, freezer: Callable[[int], None]
) -> None:
    cards[0].memory_used = 20 * GIB
    hangs = opened(4)
    freezer(hangs.pid)
    done = fallow("stop", "0", "--yes", "--grace", "0.1s", "--json")
    (told,) = json.loads(done.stdout)["jobs"]
    assert (done.returncode, told["outcome"], told["pids"]) == (1, "left", [hangs.pid])
    assert "waits inside the kernel and hears no signal (state D)" in told["because"]


def test_without_memory_of_nobody_an_open_device_file_proves_nothing(
    fallow: Fallow, cards: World, opened: Open
) -> None:
    opened(20)
    assert offered(fallow) == []
    assert "nobody is on GPU 0" in fallow("stop", "0", "--yes").stderr


@pytest.mark.parametrize("name", ["nvidia-smi", "/usr/bin/nv-hostengine", "nvtop", "dcgm-exporter"])
def test_monitors_are_never_offered(fallow: Fallow, cards: World, opened: Open, name: str) -> None:
    cards[0].memory_used = 20 * GIB
    opened(20, 0, name)
    assert offered(fallow) == []
    assert "20.0 GiB on GPU 0 are held by no process that can be seen" in fallow("stop", "0", "--yes").stderr


def test_a_service_that_was_handed_open_device_files_by_a_neighbour_is_not_offered(
    fallow: Fallow, cards: World
) -> None:
    """As a message bus is, which keeps them for a receiver that reads nothing."""
    cards[0].memory_used = 20 * GIB
    ours, its = socket.socketpair()
    command = [sys.executable, "-c", TAKER]
    with subprocess.Popen(command, stdin=its, stdout=subprocess.PIPE, text=True) as service, ours, its:
        with open(f"{fallow.environ['FALLOW_DEVICES']}/nvidia0", encoding="ascii") as node:
            socket.send_fds(ours, [b"x"], [node.fileno()] * 8)
        assert service.stdout is not None
        assert service.stdout.readline() == "open\n"
        assert offered(fallow) == []
        assert "held by no process that can be seen" in fallow("stop", "0", "--yes").stderr
    assert service.returncode == 0


def test_who_has_it_open_as_seldom_as_monitors_have_or_another_card_is_not_offered(
    fallow: Fallow, cards: World, opened: Open
) -> None:
    cards[0].memory_used = 20 * GIB
    opened(3)
    opened(8, 1)
    assert offered(fallow) == []


@pytest.mark.parametrize("kin", ["child", "parent", "itself"])
def test_who_is_below_or_above_a_process_that_is_listed_on_another_card_or_is_it_is_not_offered(
    fallow: Fallow, cards: World, opened: Open, kin: str
) -> None:
    """Workers inherit what their parent has open, and a launcher may have begun CUDA: neither holds memory."""
    family = opened(8) if kin == "itself" else opened(8, 0, sys.executable, FORKER, kin)
    with open(f"/proc/{family.pid}/task/{family.pid}/children", encoding="ascii") as file:
        children = [int(pid) for pid in file.read().split()]
    listed = children[0] if kin == "parent" else family.pid
    cards[1].compute = [Process(listed, GIB)]
    cards[0].memory_used = 20 * GIB
    assert offered(fallow) == []


def test_while_it_is_unknown_who_is_listed_somewhere_nobody_is_offered(
    fallow: Fallow, cards: World, opened: Open
) -> None:
    cards[0].memory_used = 20 * GIB
    there = opened(8)
    assert offered(fallow) == [there.pid]
    cards.fault("nvmlDeviceGetComputeRunningProcesses", card=1, error=999)
    assert offered(fallow) == []
