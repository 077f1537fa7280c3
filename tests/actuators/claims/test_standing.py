"""Who stands in line, and who only says so; and how long a false mark can keep anybody waiting."""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.actuators.claims.claims import CLAIM_BYTE, ClaimFile, read_label
from fallow.actuators.claims.fill_marks import mark_filled
from fallow.actuators.claims.folder import ClaimFolder
from fallow.actuators.claims.queue import Queue, QueueEntry
from fallow.actuators.files import ofd_locks
from fallow.core.reservations import Claim, Waiter
from fallow.engine.machine.claim_holders import stands
from fallow.engine.machine.world import World
from fallow.engine.machine.yielding_gpus import wait_until_clear
from fallow.readers.lock_table import LockTable
from fallow.readers.proc import Proc

pytestmark = pytest.mark.more

UUID = "GPU-fa110000-0000-4000-8000-000000000000"
NOW_S = 5000.0


class Timepiece:
    """A clock on which only sleeping passes time."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return 1e9 + self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_SIMULATE": "1xH100"}, clock=Timepiece())
    yield made
    made.close()


@pytest.fixture
def file(world: World) -> Iterator[ClaimFile]:
    made = ClaimFile(world.folder.open(UUID))
    yield made
    made.close()


@pytest.fixture
def theirs(world: World) -> Iterator[int]:
    fd = world.folder.open(UUID)
    yield fd
    os.close(fd)


def label(world: World, ticket: int, **what: object) -> None:
    """A label of a place, as any user could write one of their own."""
    stat = Proc().stat(os.getpid())
    assert stat is not None
    content = {"pid": os.getpid(), "birth": stat.birth, "command": "train", **what}
    assert world.folder.add(f"waiting-{ticket}", json.dumps(content).encode())


def waiting(world: World, file: ClaimFile) -> Waiter | None:
    return Queue(world.folder, lambda _: True).reservations(file, NOW_S).waiting


def test_a_place_counts_with_its_label_and_is_nobodys_without(world: World, file: ClaimFile, theirs: int) -> None:
    """V7"""
    ticket = int((NOW_S - 1) * 1e9)
    ofd_locks.take(theirs, ticket)
    line = Queue(world.folder, lambda _: True)
    assert not line.reservations(file, NOW_S).ahead
    assert line.count_ahead(file, NOW_S, CLAIM_BYTE) == 0
    label(world, ticket)
    found = waiting(world, file)
    assert Queue(world.folder, lambda _: True).count_ahead(file, NOW_S, CLAIM_BYTE) == 1
    assert found is not None
    assert (found.pid, found.uid, found.ticket) == (os.getpid(), os.geteuid(), ticket)


def test_a_label_that_any_user_could_have_written_makes_no_place_of_its_owner(
    world: World, file: ClaimFile, theirs: int
) -> None:
    """A claim file is root's and open to all: who gives it a second name has a label that root seems to own."""
    ticket = int((NOW_S - 1) * 1e9)
    ofd_locks.take(theirs, ticket)
    label(world, ticket)
    label_file = pathlib.Path(world.folder.path) / f"waiting-{ticket}"
    assert waiting(world, file) is not None
    os.pwrite(theirs, label_file.read_bytes(), 0)
    label_file.unlink()
    os.link(f"{world.folder.path}/{UUID}", label_file)
    assert waiting(world, file) is None


@pytest.mark.parametrize("ticket", [1, 10**9 - 1, int((NOW_S + 1) * 1e9), CLAIM_BYTE - 1])
def test_no_ticket_is_from_before_boot_or_from_after_now(
    world: World, file: ClaimFile, theirs: int, ticket: int
) -> None:
    """V7"""
    ofd_locks.take(theirs, ticket)
    label(world, ticket)
    assert waiting(world, file) is None
    assert not list(file.places(NOW_S))


def test_a_label_must_be_of_a_living_process_of_its_owner_that_is_no_younger(tmp_path: pathlib.Path) -> None:
    """V7"""
    real = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")})
    is_true, me = stands(real), Proc().stat(os.getpid())
    assert me is not None
    now = int(real.clock.monotonic_s() * 1e9)
    true = {"ticket": now, "pid": me.pid, "birth": me.birth, "uid": os.geteuid(), "command": "x"}
    assert is_true(Waiter(**true))  # type: ignore[arg-type]
    for false in ({"birth": me.birth - 1}, {"uid": 61001}, {"pid": 4_100_000}, {"ticket": 2 * 10**9}):
        assert not is_true(Waiter(**{**true, **false})), false  # type: ignore[arg-type]


def test_thousands_of_locks_in_a_line_are_looked_at_in_bounded_time(
    world: World, file: ClaimFile, theirs: int
) -> None:
    """V7"""
    for ticket in range(3 * 10**9, 3 * 10**9 + 4000, 2):
        ofd_locks.take(theirs, ticket)
    assert waiting(world, file) is None
    assert 0 < len(list(file.places(NOW_S))) <= 256


def test_the_more_locks_there_are_the_fewer_are_looked_at(file: ClaimFile, theirs: int) -> None:
    """The kernel goes through all locks of a file for each answer: 60,000 took the daemon seconds at each look."""
    for ticket in range(3 * 10**9, 3 * 10**9 + 24000, 2):
        ofd_locks.take(theirs, ticket)
    began_s = thread_time()
    assert list(file.places(NOW_S))
    assert thread_time() - began_s < 0.012


def test_whoever_finds_the_line_locked_goes_on_without(world: World, file: ClaimFile) -> None:
    """V7: `run` spun for ever."""
    script = (
        "import fcntl, os, struct, sys; fd = os.open(sys.argv[1], os.O_RDWR); "
        "fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack('@hhqqi4x', fcntl.F_WRLCK, 0, 1, 2**62 - 1, 0)); "
        "print('up', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script, f"{world.folder.path}/{UUID}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as eve:
        assert eve.stdout is not None
        eve.stdout.readline()
        clock = world.clock
        ours = Claim(False, os.getpid(), birth=1)
        place = QueueEntry(world.folder, ours, clock.monotonic_s, clock.sleep, lambda _: True, in_passing=False)
        place.join([UUID])
        assert not place.reservations()[UUID].ahead
        place.leave()
        assert eve.stdin is not None
        eve.stdin.close()


def test_those_who_try_once_are_minded_for_seconds_only(world: World, file: ClaimFile, theirs: int) -> None:
    """V7"""
    line = Queue(world.folder, lambda _: True)
    ofd_locks.take(theirs, int((NOW_S - 1) * 1e9), shared=True)
    assert line.reservations(file, NOW_S).in_passing
    assert not line.reservations(file, NOW_S, passing=False).ahead
    assert not line.reservations(file, NOW_S + 60).ahead, "nobody tries once for a minute"


def test_a_mark_with_nobody_on_the_card_keeps_a_launch_for_seconds(world: World) -> None:
    """V7: it was refused after a minute."""
    mark = mark_filled(world.folder, UUID, Claim(False, 1, command="burn"))
    assert mark is not None
    said: list[str] = []
    wait_until_clear(world, world.gpu_reader.look(1).gpus, 0, said.append)  # type: ignore[arg-type]
    assert 9 < world.clock.monotonic_s() - NOW_S < 12
    mark.close()


@given(st.binary(max_size=300))
def test_no_label_of_whatever_bytes_raises(raw: bytes) -> None:
    read_label(False, raw)


@pytest.mark.parametrize(
    "raw", [b'{"pid": 1e400}', b'{"pid": 99999999999999999999999}', b'{"since": NaN}', b"[" * 4000, b'{"pid": true}']
)
def test_numbers_that_make_no_sense_are_none(raw: bytes) -> None:
    claim = read_label(False, raw)
    assert claim.pid is None
    assert claim.since_wall_s is None


def test_the_kernels_table_names_who_signed_and_what_is_locked_elsewhere(tmp_path: pathlib.Path) -> None:
    folder = ClaimFolder(str(tmp_path / "claims"))
    first = ClaimFile(folder.open("GPU-1"))
    table = LockTable(Proc())
    assert table.signers(first.identity[1]) == frozenset()
    ofd_locks.take(first.fd, 77)
    ofd_locks.sign(first.fd)
    table = LockTable(Proc())
    assert table.signers(first.identity[1]) == {os.getpid()}
    assert table.elsewhere(77, first.identity[1]) is None
    found = table.elsewhere(77, first.identity[1] + 1)
    assert found is not None
    assert found.inode == first.identity[1]
    first.close()
    folder.close()
