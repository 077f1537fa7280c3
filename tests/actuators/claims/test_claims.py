"""A claim lives exactly as long as its job, whoever is killed in whatever order."""

import os
import pathlib
import re
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from fallow.actuators.claims.claims import PICKED_FOR_S, is_picked, note_pick, take
from fallow.actuators.claims.folder import ClaimFolder
from fallow.core.reservations import Claim, Note
from fallow.core.unknown import Unknown
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World
from fallow.readers.accounts import user_name
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.harness import ManualClock
from tests.places import LIMIT_S
from tests.waiting import end

FIRST = "GPU-fa110000-0000-4000-8000-000000000000"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> ClaimFolder:
    return ClaimFolder(str(tmp_path / "claims"))


def claimed(folder: ClaimFolder, uuid: str = FIRST) -> Claim | Unknown | None:
    """As fallow shows it to everybody."""
    world = World({"FALLOW_CLAIM_DIR": folder.path})
    try:
        return claim_of(world, uuid)
    finally:
        world.close()


def note(**what: Any) -> Note:
    stat = Proc().stat(os.getpid())
    assert stat is not None
    return Note(**{"pid": os.getpid(), "birth": stat.birth, "since_wall_s": 1.5, **what})


def test_a_claim_says_whose_it_is(folder: ClaimFolder) -> None:
    held = take(folder, "GPU-1", note(program="train"))
    assert held is not None
    claim = claimed(folder, "GPU-1")
    assert isinstance(claim, Claim)
    assert (claim.pid, claim.user, claim.since_wall_s) == (os.getpid(), user_name(os.getuid()), 1.5)
    assert str(claim) == f"claimed by {claim.user} for train (pid {os.getpid()})"
    held.end()
    assert claimed(folder, "GPU-1") is None


@pytest.mark.parametrize("false", [{"birth": 1}, {"pid": 4_000_000}])
def test_a_note_that_names_no_process_here_names_nobody(folder: ClaimFolder, false: dict[str, int]) -> None:
    held = take(folder, "GPU-1", note(**false))
    assert held is not None
    assert claimed(folder, "GPU-1") == Claim(shared=False)
    held.end()


@pytest.mark.parametrize(
    "rubbish", [b"", b"\xff\xfe", b"x y z\n", b"-1 2 3\n", b"0", b"9" * 5000, b" " * 4000, "٤ ٤ ٤ \0".encode()]
)
def test_a_note_that_somebody_spoiled_changes_nothing_about_the_claim(folder: ClaimFolder, rubbish: bytes) -> None:
    held = take(folder, "GPU-1", note())
    assert held is not None
    path = pathlib.Path(folder.path) / "GPU-1"
    path.write_bytes(rubbish)
    assert claimed(folder, "GPU-1") == Claim(shared=False)
    assert take(folder, "GPU-1", note()) is None
    held.end()


def test_a_file_removed_under_us_is_made_anew_so_that_both_lock_the_same_one(folder: ClaimFolder) -> None:
    fd, path = folder.open("GPU-1"), pathlib.Path(folder.path)
    assert folder.has("GPU-1", fd)
    path.rename(path.with_name("moved"))
    assert not folder.has("GPU-1", fd), "others do not find it in the folder"
    path.with_name("moved").rename(path)
    os.unlink(path / "GPU-1")
    assert not folder.has("GPU-1", fd)
    os.close(fd)
    held = take(folder, "GPU-1", note())
    assert held is not None
    assert claimed(folder, "GPU-1") is not None
    held.end()


def test_a_reservation_lasts_some_seconds_and_one_from_before_a_reboot_is_not_believed(folder: ClaimFolder) -> None:
    fd = folder.open("GPU-1")
    assert not is_picked(fd, 1000.0)
    note_pick(fd, 1000.0)
    assert is_picked(fd, 1000.1)
    assert not is_picked(fd, 1000.0 + PICKED_FOR_S)
    assert not is_picked(fd, 3.0), "the clock began anew: what is an hour ahead was written before that"
    os.close(fd)


def test_nobody_can_block_the_gate_for_ever(folder: ClaimFolder) -> None:
    clock = ManualClock()
    with folder.gate(clock):
        began_s = clock.now_s
        with folder.gate(clock):
            assert clock.now_s - began_s == pytest.approx(2.0, abs=0.01)


def run_and_read(simulated: Fallow, *words: str) -> tuple[subprocess.Popen[str], str]:
    process = simulated.start(*words)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("ends", [lambda job: job.communicate("\n"), end], ids=["by itself", "killed"])
def test_the_claim_is_the_job_s_whatever_descriptors_it_closes_and_ends_with_it(
    simulated: Fallow, folder: ClaimFolder, ends: Callable[[subprocess.Popen[str]], object]
) -> None:
    script = "exec 3>/dev/null 4>/dev/null 9>/dev/null; exec 3>&- 4>&- 9>&-; echo up; read secret"
    job, _ = run_and_read(simulated, "run", "--gpus", "0", "--", "bash", "-c", script)
    claim = claimed(folder)
    assert isinstance(claim, Claim)
    assert claim.pid == job.pid, "nothing stands between: the job is the process that was started"
    raw = (pathlib.Path(folder.path) / FIRST).read_text()
    assert re.fullmatch(rf"{job.pid} \d+ \d+ bash\n *", raw), "its arguments are nobody else's business"
    ends(job)
    assert claimed(folder) is None


def test_the_claim_lives_on_with_children_when_the_first_process_is_killed(
    simulated: Fallow, folder: ClaimFolder
) -> None:
    # The child waits for its stdin, a pipe whose other end the test holds.
    script = "sh -c 'echo $$; exec sleep 1000' & wait"
    job, child = run_and_read(simulated, "run", "--gpus", "0", "--", "sh", "-c", script)
    job.kill()
    job.wait(LIMIT_S)
    assert claimed(folder) is not None, "its child still runs"
    pidfd = os.pidfd_open(int(child))
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    job.communicate(timeout=LIMIT_S)
    os.close(pidfd)
    assert claimed(folder) is None


def test_those_who_share_get_the_same_card_and_others_do_not(simulated: Fallow) -> None:
    words = ("--gpus", "0", "--shared", "--", "sh", "-c", "echo up; read line")
    first, _ = run_and_read(simulated, "run", *words)
    second, up = run_and_read(simulated, "run", *words)
    assert up == "up"
    alone = simulated("run", "--gpus", "0", "--", "true")
    assert alone.returncode == 75
    assert "shared by" in alone.stderr
    for job in (first, second):
        job.communicate("\n", timeout=LIMIT_S)
    assert simulated("run", "--gpus", "0", "--", "true").returncode == 0
