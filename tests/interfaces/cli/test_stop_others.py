"""`fallow stop` among several users: nobody but root stops what is another's, and nothing is half done."""

import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.interfaces.cli.stopped import is_running
from tests.places import LIMIT_S
from tests.standin import Process, World
from tests.waiting import end

pytestmark = pytest.mark.as_root
GIB = 2**30
Start = Callable[[int], "subprocess.Popen[bytes]"]


@pytest.fixture
def users(open_folder: pathlib.Path, library: pathlib.Path) -> Iterator[Users]:
    """Users on a machine of the stand-in driver, which shows each of them everybody's processes."""
    open_folder.chmod(0o1777)
    shutil.copytree(library, open_folder / "driver")
    made = Users(open_folder)
    del made.environ["FALLOW_SIMULATE"]
    made.environ["FALLOW_DRIVER_TIMEOUT"] = "30s"
    for uid in (0, ADA, BOB):
        (open_folder / f"home-{uid}").mkdir(mode=0o700)
        os.chown(open_folder / f"home-{uid}", uid, uid)
    yield made
    for process in made.started:
        end(process)


@pytest.fixture
def cards(users: Users, open_folder: pathlib.Path) -> Iterator[World]:
    world = World.create(open_folder / "world", cards=2)
    users.environ.update(world.environ(open_folder / "driver"))
    yield world
    world.close()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process of a user."""
    started: list[subprocess.Popen[bytes]] = []

    def make(uid: int) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            ["sleep", "1000"], user=uid, group=uid, extra_groups=[], start_new_session=True, cwd="/"
        )
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait(LIMIT_S)


def stop(users: Users, uid: int, *words: str) -> tuple[int, str, str]:
    users.environ["FALLOW_STATE_DIR"] = str(pathlib.Path(users.environ["FALLOW_CLAIM_DIR"]).parent / f"home-{uid}")
    return users.run(uid, "stop", *words)


def test_another_users_job_is_refused_in_one_sentence_before_anything_is_touched(
    users: Users, cards: World, start: Start
) -> None:
    theirs = start(BOB)
    cards[0].compute = [Process(theirs.pid, GIB)]
    for subject in ("0", f"pid:{theirs.pid}", f"user:{BOB}", "all"):
        code, out, err = stop(users, ADA, subject, "--yes")
        assert (code, out) == (77, ""), err
        assert f"{BOB}'s job {theirs.pid} (sleep)" in err
        assert "that needs root" in err
        assert err.count("\n") == 1
    assert is_running(theirs.pid)


def test_a_gpu_with_jobs_of_two_users_is_left_as_it_is_and_mine_takes_only_ones_own(
    users: Users, cards: World, start: Start
) -> None:
    mine, theirs = start(ADA), start(BOB)
    cards[0].compute = [Process(mine.pid, GIB), Process(theirs.pid, GIB)]
    for subject in ("0", "all"):
        code, _, err = stop(users, ADA, subject, "--yes")
        assert (code, "`fallow stop mine` stops yours alone" in err) == (77, True), err
    assert is_running(mine.pid)
    code, out, err = stop(users, ADA, "mine", "--yes")
    assert code == 0, out + err
    assert mine.wait(LIMIT_S) == -15
    assert is_running(theirs.pid)


@pytest.mark.more
def test_root_stops_anybodys_job(users: Users, cards: World, start: Start) -> None:
    theirs = start(BOB)
    cards[0].compute = [Process(theirs.pid, GIB)]
    code, out, err = stop(users, 0, "0", "--yes")
    assert code == 0, out + err
    assert theirs.wait(LIMIT_S) == -15


def test_root_is_bound_by_a_users_protection(users: Users, cards: World, start: Start) -> None:
    theirs = start(BOB)
    cards[0].compute = [Process(theirs.pid, GIB)]
    users.environ["FALLOW_STATE_DIR"] = ""
    assert users.run(BOB, "protect", f"pid:{theirs.pid}", "--for", "1h")[0] == 0
    code, out, _ = stop(users, 0, "0", "--yes")
    assert (code, f"{BOB} or root releases it with: fallow protect --release" in out) == (1, True), out
    assert is_running(theirs.pid)


def test_what_another_user_has_open_is_for_root_to_see(users: Users, cards: World, open_folder: pathlib.Path) -> None:
    users.environ.update(cards.nodes(open_folder / "dev"))
    cards[0].memory_used = 20 * GIB
    code, _, err = stop(users, ADA, "0", "--yes")
    assert (code, "root can see who has the GPU open" in err) == (1, True), err
