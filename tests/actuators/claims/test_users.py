"""Several users, none of them root, share one folder and never a card."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.places import LIMIT_S, REPOSITORY
from tests.waiting import end

pytestmark = pytest.mark.as_root
ADA, BOB = 61001, 61002


class Users:
    """fallow as users with these ids."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(REPOSITORY),
            "FALLOW_CLAIM_DIR": str(folder / "claims"),
            "FALLOW_SOCKET": str(folder / "run" / "fallow.sock"),
            "FALLOW_SIMULATE": "2xH100",
        }
        self.started: list[subprocess.Popen[str]] = []

    def start(self, uid: int, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.as_user", str(uid), *words],
            env=self.environ,
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, uid: int, *words: str) -> tuple[int, str, str]:
        process = self.start(uid, *words)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err


@pytest.fixture
def users(open_folder: pathlib.Path) -> Iterator[Users]:
    open_folder.chmod(0o1777)
    made = Users(open_folder)
    yield made
    for process in made.started:
        end(process)


def test_one_user_s_claim_binds_another_who_may_take_the_card_afterwards(users: Users) -> None:
    ada = users.start(ADA, "run", "--gpus", "0", "--", "sh", "-c", "id -u; read line")
    assert ada.stdout is not None
    assert ada.stdout.readline() == f"{ADA}\n"
    code, _, err = users.run(BOB, "run", "--gpus", "0", "--", "true")
    assert code == 75
    assert f"claimed by {ADA}" in err
    assert users.run(BOB, "run", "--", "sh", "-c", "id -u")[1] == f"{BOB}\n"
    waiting = users.start(BOB, "run", "--gpus", "0", "--wait", "--", "sh", "-c", "id -u")
    assert waiting.stderr is not None
    assert f"is {ADA}'s, who can take claims away" in waiting.stderr.readline()
    assert "waiting for 1 GPU" in waiting.stderr.readline()
    ada.communicate("\n", timeout=LIMIT_S)
    assert waiting.communicate(timeout=LIMIT_S)[0] == f"{BOB}\n"


def test_a_folder_that_its_owner_shut_is_told_with_what_to_do(users: Users) -> None:
    folder = users.environ["FALLOW_CLAIM_DIR"] = f"{users.environ['FALLOW_CLAIM_DIR']} of all"
    assert users.run(ADA, "pick")[0] == 0
    os.chmod(folder, 0o755)
    code, out, err = users.run(BOB, "run", "--", "true")
    assert (code, out) == (77, "")
    assert err.count("\n") == 1
    assert f"chmod 1777 '{folder}'" in err


def test_a_file_that_its_owner_shut_is_told_and_nothing_runs(users: Users) -> None:
    assert users.run(ADA, "pick", "-n", "2")[0] == 0
    for entry in os.scandir(users.environ["FALLOW_CLAIM_DIR"]):
        os.chmod(entry, 0o600)
    code, out, err = users.run(BOB, "run", "--", "echo", "ran")
    assert (code, out) == (75, "")
    assert err.count(f"cannot be opened: Permission denied; it is {ADA}'s (its owner or root can remove it)") == 2
    assert users.run(BOB, "status", "--json")[0] == 0, "looking still works; only the claims are unknown"


def test_a_folder_that_cannot_be_made_is_told(users: Users, open_folder: pathlib.Path) -> None:
    open_folder.chmod(0o755)
    code, out, err = users.run(BOB, "pick")
    assert (code, out) == (77, "")
    assert "cannot make the claim folder" in err
