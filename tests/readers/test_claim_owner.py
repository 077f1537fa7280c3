"""Whose a claim is, as the kernel shows it: a process that has the claim's file open, with the lock."""

import os
import pathlib
import subprocess
import sys

import pytest

from fallow.actuators.files import ofd_locks
from fallow.core.process import Process
from fallow.readers.claim_owner import ClaimOwners
from fallow.readers.proc import Proc
from tests.harness import ManualClock
from tests.places import LIMIT_S

BYTE = 0
US = Proc().stat(os.getpid())


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "GPU-1"
    made.touch()
    return made


def test_the_holder_of_the_lock_is_found_whoever_is_named_and_only_while_it_lives(path: pathlib.Path) -> None:
    """The claim is handed to a child, as `fallow run` hands it to the job, and is nobody's other than the child's."""
    assert US is not None
    me = Process(US.pid, US.birth)
    claim = os.open(path, os.O_RDWR)
    assert ofd_locks.take(claim, BYTE)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[claim])
    os.close(claim)
    seen = os.open(path, os.O_RDWR)
    clock = ManualClock()
    owners = ClaimOwners(Proc(), clock)
    for named in (me, None, Process(child.pid, 1)):
        found = owners.owner(seen, BYTE, named)
        assert found is not None
        assert found.pid == child.pid, "we have the file open too, and no lock"
    assert owners.owner(seen, BYTE + 1, me) is None, "that byte is not locked"
    child.communicate(b"\n", timeout=LIMIT_S)
    assert owners.owner(seen, BYTE, me) is None
    os.close(seen)


def test_everybody_is_searched_every_half_minute_at_most(path: pathlib.Path) -> None:
    seen, clock = os.open(path, os.O_RDWR), ManualClock()
    owners = ClaimOwners(Proc(), clock)
    assert owners.owner(seen, BYTE, None) is None
    claim = os.open(path, os.O_RDWR)
    assert ofd_locks.take(claim, BYTE)
    assert owners.owner(seen, BYTE, None) is None
    clock.now_s += 31
    assert owners.owner(seen, BYTE, None) is not None
    os.close(claim)
    os.close(seen)
