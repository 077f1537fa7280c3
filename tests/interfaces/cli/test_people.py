"""Somebody who types keeps guard and fillers away, also where nothing records that they are here."""

import os
import pty
import signal
from collections.abc import Iterator

import pytest

from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.conditions.machine import parse_unless
from fallow.engine.machine.world import World
from tests.conftest import Fallow


@pytest.fixture
def somebody(fallow: Fallow) -> Iterator[str]:
    """A shell on a real terminal, which somebody has just typed into."""
    pid, master = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "tty; read line; echo got; read line"])
    said = b""
    while b"\n" not in said:
        said += os.read(master, 100)
    terminal = said.decode().split()[0].removeprefix("/dev/")
    os.write(master, b"typed\n")
    while b"got" not in said:
        said += os.read(master, 100)
    place = fallow.home / "terminals" / terminal
    place.symlink_to(f"/dev/{terminal}")  # of all terminals of this machine only this one
    yield terminal
    os.kill(pid, signal.SIGKILL)
    os.close(master)
    os.waitpid(pid, 0)


def test_the_condition_users_sees_somebody_whom_nothing_records(simulated: Fallow, somebody: str) -> None:
    """F25: while a condition gives a reason, or Unknown, a guard does not act (see test_guarding)."""
    why = parse_unless("users", World(simulated.environ))()
    assert isinstance(why, Reason)
    assert f"was at {somebody}" in str(why)
    nowhere = World({**simulated.environ, "FALLOW_TERMINALS": str(simulated.home / "nowhere")})
    assert isinstance(parse_unless("users", nowhere)(), Unknown)


def test_a_filler_stays_away_from_somebody_whom_nothing_records(simulated: Fallow, somebody: str) -> None:
    """F25"""
    filling = simulated.start("fill", "--gpus", "0", "--idle-for", "0.5s", "--", "sleep", "600")
    assert filling.stderr is not None
    assert f"was at {somebody}" in next(line for line in filling.stderr if "left alone" in line)


def test_without_any_source_fillers_stay_away_and_say_why(simulated: Fallow) -> None:
    """F25"""
    nowhere = {"FALLOW_TERMINALS": str(simulated.home / "nowhere")}
    filling = simulated.start("fill", "--gpus", "0", "--idle-for", "0.5s", "--", "sleep", "600", **nowhere)
    assert filling.stderr is not None
    assert "so nothing is filled" in next(line for line in filling.stderr if "no record of who is here" in line)
    found = simulated("doctor", **nowhere).stdout
    assert "fillers never start" in found
    assert "logins are recorded" not in found
