"""`fallow stop` among several users without a daemon: nobody but root stops what is another's."""

import json
import pathlib

import pytest

from tests.interfaces.cli.stopped import is_running
from tests.security.conftest import cards, machine
from tests.security.machine import ADA, BOB, Machine
from tests.standin import Process, World

__all__ = ["cards", "machine"]  # fixtures
pytestmark = pytest.mark.as_root
GIB = 2**30


def on_card(machine: Machine, cards: World, *users: int) -> list[int]:
    """The pids of jobs of these users, all on the first card."""
    pids = [machine.start(uid, "sleep", "1000").pid for uid in users]
    cards[0].compute = [Process(pid, GIB) for pid in pids]
    return pids


def test_another_users_job_is_refused_in_one_sentence_and_mine_takes_only_ones_own(
    machine: Machine, cards: World
) -> None:
    mine, theirs = on_card(machine, cards, ADA, BOB)
    for subject in ("0", f"pid:{theirs}", f"user:{BOB}", "all"):
        done = machine.fallow(ADA, "stop", subject, "--yes")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (77, "", 1), done.stderr
        assert f"{BOB}'s job {theirs} (sleep)" in done.stderr
        assert "that needs root" in done.stderr
    assert "`fallow stop mine` stops yours alone" in machine.fallow(ADA, "stop", "0", "--yes").stderr
    assert is_running(mine)
    assert machine.fallow(ADA, "stop", "mine", "--yes").returncode == 0
    assert not is_running(mine)
    assert is_running(theirs)


def test_root_stops_anybodys_job_and_is_bound_by_a_users_protection(machine: Machine, cards: World) -> None:
    (theirs,) = on_card(machine, cards, BOB)
    placed = machine.fallow(BOB, "protect", f"pid:{theirs}", "--for", "1h", "--json")
    number = json.loads(placed.stdout)["protections"][0]["id"]
    done = machine.fallow(0, "stop", "0", "--yes")
    assert (done.returncode, f"{BOB} or root releases it with: fallow protect --release" in done.stdout) == (1, True)
    assert is_running(theirs)
    assert machine.fallow(BOB, "protect", "--release", str(number)).returncode == 0
    assert machine.fallow(0, "stop", "0", "--yes").returncode == 0
    assert not is_running(theirs)


def test_what_another_user_has_open_is_for_root_to_see(
    machine: Machine, cards: World, open_folder: pathlib.Path
) -> None:
    machine.environ.update(cards.nodes(open_folder / "dev"))
    cards[0].memory_used = 20 * GIB
    done = machine.fallow(ADA, "stop", "0", "--yes")
    assert (done.returncode, "root can see who has the GPU open" in done.stderr) == (1, True), done.stderr
