"""Whose a claim is: a process that has the lock's open file, and nobody else, whatever is written or numbered."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fallow.actuators.claims.claims import CLAIM_BYTE, ClaimFile
from fallow.actuators.files import ofd_locks
from fallow.core.reservations import Claim
from fallow.engine.machine.claim_holders import claim_on
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.readers.lock_holders import LockHolders
from fallow.readers.lock_table import LockTable
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.core.gpus import idle
from tests.engine.idle_rules.enforcer_resident import OnTheHost, Resident
from tests.engine.idle_rules.test_enforcer import WAITS, Start, patrol, start  # noqa: F401  fixtures
from tests.waiting import until

pytestmark = pytest.mark.more

CARD = "GPU-fa110000-0000-4000-8000-000000000000"


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Iterator[World]:
    made = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims")})
    made.proc = OnTheHost()
    yield made
    made.close()


@pytest.fixture
def card(world: World) -> Iterator[ClaimFile]:
    made = ClaimFile(world.folder.open(CARD))
    yield made
    made.close()


class Frozen(SystemClock):
    """It stands still, so that only the count of descriptors measures."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


class Slow(OnTheHost):
    """A /proc in which the way to the list of processes takes a second."""

    def __init__(self, clock: Frozen) -> None:
        super().__init__()
        self._clock = clock

    def pids(self) -> list[int]:
        self._clock.now_s += 1.0
        return [os.getpid()] * 100


@contextmanager
def in_flight(fd: int) -> Iterator[None]:
    """A descriptor that is on its way between two sockets: no process has it open, and its locks are held."""
    ends = socket.socketpair()
    socket.send_fds(ends[0], [b"x"], [fd])
    os.close(fd)
    try:
        yield
    finally:
        for end in ends:
            end.close()


def claimed(world: World) -> int:
    fd = world.folder.open(CARD)
    assert ofd_locks.take(fd, CLAIM_BYTE)
    return fd


def blame(world: World, begin: Start, fd: int) -> int:
    """A bystander by whose number the claim is signed, and whom its label names, and who has it not."""
    signs = f"import fcntl; fcntl.flock({fd}, fcntl.LOCK_SH); os.close({fd}); print('ready', flush=True); {WAITS}"
    pid = begin(signs, pass_fds=(fd,)).pid
    stat = Proc().stat(pid)
    assert stat is not None
    content = json.dumps({"pid": pid, "birth": stat.birth, "since": 1.0, "command": "x"}).encode()
    (pathlib.Path(world.folder.path) / CARD).write_bytes(content.ljust(4096))
    return pid


def searched(world: World, card: ClaimFile) -> Claim:
    """The claim once the search for its process has ended, which takes several looks on a busy machine."""
    world.look_patiently()
    found = until(lambda: claim_on(world, card), lambda claim: "not found yet" not in str(claim), pause_s=0.1)
    assert found is not None
    return found


def test_a_signature_and_a_label_name_nobody_who_has_not_the_claim_open(
    world: World,
    card: ClaimFile,
    start: Start,  # noqa: F811
) -> None:
    fd = claimed(world)
    pid = blame(world, start, fd)
    with in_flight(fd):
        assert pid in LockTable(world.proc).signers(card.identity[1])
        claim = searched(world, card)
        assert (claim.pid, claim.user, claim.birth, claim.since_wall_s) == (None, None, None, None)
        assert str(claim).startswith(
            "claimed by a hidden process: none that can be seen has it open (docs/concepts/claims"
        )


def test_a_rule_touches_nobody_for_a_claim_that_they_have_not_open(
    patrol: Callable[..., Resident],  # noqa: F811
    start: Start,  # noqa: F811
    fallow: Fallow,
) -> None:
    world = World(fallow.environ)
    fd = claimed(world)
    blame(world, start, fd)
    with in_flight(fd):
        resident = patrol()
        assert resident("jobs", gpus=(idle(uuid=CARD),)) == []
        assert resident("turn", gpus=[(idle(uuid=CARD),)] * 40) == []
    world.close()


def test_a_rule_touches_nobody_who_was_handed_a_claim_that_another_process_took(
    patrol: Callable[..., Resident],  # noqa: F811
    fallow: Fallow,
) -> None:
    """A message bus queues descriptors of strangers; root's rule must not end it for what they sent.

    Nor where the pid that signed the claim is the bystander's, as when a pid is used again.
    """
    world = World(fallow.environ)
    fd = claimed(world)
    signs = f"import fcntl, time; fcntl.flock({fd}, fcntl.LOCK_SH); print('signed', flush=True); time.sleep(1000)"
    words = [sys.executable, "-c", signs]
    with subprocess.Popen(words, pass_fds=[fd], stdout=subprocess.PIPE, text=True) as bystander:
        os.close(fd)
        assert bystander.stdout is not None
        assert bystander.stdout.readline() == "signed\n"
        resident = patrol()
        assert resident("jobs", gpus=(idle(uuid=CARD),)) == []
        assert resident("turn", gpus=[(idle(uuid=CARD),)] * 40) == []
        assert bystander.poll() is None
        bystander.kill()
    world.close()


def test_whoever_has_the_claim_open_is_named_though_a_label_blames_another(
    world: World,
    card: ClaimFile,
    start: Start,  # noqa: F811
) -> None:
    fd = claimed(world)
    blame(world, start, fd)
    claim = searched(world, card)
    assert claim.pid == os.getpid()
    assert claim.since_wall_s is None
    os.close(fd)


def test_a_search_has_its_measure_and_goes_on_at_the_next_look(world: World, card: ClaimFile) -> None:
    """Thousands of descriptors held the daemon up for minutes."""
    copies = [os.dup(card.fd) for _ in range(300)]
    holders = LockHolders(world.proc, Frozen())
    holders.limit_s = 100 / 200_000  # a hundred descriptors each time; the clock of the test stands still
    with in_flight(claimed(world)):
        looks = 1
        while not holders.holder(card.fd, CLAIM_BYTE).nobody:
            looks += 1
        assert looks > 3
        for copy in copies:
            os.close(copy)
        assert holders.holder(card.fd, CLAIM_BYTE).nobody, "which is remembered: nothing is searched anew"


def test_a_descriptor_is_looked_into_only_if_it_is_of_that_very_file(
    world: World, card: ClaimFile, tmp_path: pathlib.Path
) -> None:
    """900 descriptors of a file with 10 000 locks, of the same name as the card's, cost seconds."""
    heavy = os.open(tmp_path / CARD, os.O_RDWR | os.O_CREAT)
    for byte in range(20_000, 0, -2):
        ofd_locks.take(heavy, byte)
    copies = [os.dup(heavy) for _ in range(900)]
    with in_flight(claimed(world)):
        world.look_patiently()
        before_s = time.process_time()
        for _ in range(20):
            claim_on(world, card)
        assert time.process_time() - before_s < 2
    for each in (heavy, *copies):
        os.close(each)


def test_a_search_that_took_long_pauses_for_as_long(card: ClaimFile) -> None:
    """One descriptor can take longer than all that a second has for it."""
    clock = Frozen()
    holders = LockHolders(Slow(clock), clock)
    holders.holder(card.fd, CLAIM_BYTE)
    assert clock.now_s == 1.0, "fifty times as long as it may take in a second"
    clock.now_s = 41.0
    holders.holder(card.fd, CLAIM_BYTE + 1)
    assert clock.now_s == 41.0, "so nothing is searched yet"
    clock.now_s = 51.0
    holders.holder(card.fd, CLAIM_BYTE + 1)
    assert clock.now_s == 52.0
