"""A user who only sets FALLOW_SIMULATE has a machine of their own: nobody else is on it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S, REPOSITORY
from tests.waiting import end_group, until

pytestmark = pytest.mark.as_root
ADA, EVE = 61041, 61042


class Person:
    """A user who has set FALLOW_SIMULATE, and nothing else of fallow's."""

    def __init__(self, uid: int, home: pathlib.Path) -> None:
        self.uid = uid
        self.folder = pathlib.Path(f"/tmp/fallow-simulated-{uid}")
        home.mkdir()
        os.chown(home, uid, uid)
        path = Fallow(home).environ["PATH"]
        self.environ = {"PATH": path, "HOME": str(home), "PYTHONPATH": str(REPOSITORY), "FALLOW_SIMULATE": "2xH100"}

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.as_user", str(self.uid), *words],
            env=self.environ | variables,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *words: str, **variables: str) -> tuple[int, str, str]:
        with self.start(*words, **variables) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def sleeps_on_gpu_0(self) -> subprocess.Popen[bytes]:
        there = {"FALLOW_SIMULATE": "2xH100", "CUDA_VISIBLE_DEVICES": "0"}
        them = {"user": self.uid, "group": self.uid, "extra_groups": ()}
        return subprocess.Popen(["/bin/sleep", "600"], env=there, start_new_session=True, **them)

    def holders(self) -> int:
        _, out, _ = self("status", "--json")
        return sum(len(gpu["holders"]) for gpu in json.loads(out)["gpus"])


@pytest.fixture
def people(open_folder: pathlib.Path) -> Iterator[tuple[Person, Person, Person]]:
    made = tuple(Person(uid, open_folder / str(uid)) for uid in (ADA, EVE, 0))
    ada, eve, root = made
    yield ada, eve, root
    for person in (ada, eve):
        shutil.rmtree(person.folder, ignore_errors=True)


def test_a_job_of_one_is_not_on_the_machine_of_another_even_if_that_is_roots(
    people: tuple[Person, Person, Person],
) -> None:
    ada, eve, root = people
    job = ada.sleeps_on_gpu_0()
    try:
        assert [person.holders() for person in (ada, eve, root)] == [1, 0, 0]
    finally:
        end_group(job)


def test_a_daemon_answers_its_own_user_only(people: tuple[Person, Person, Person]) -> None:
    ada, eve, _ = people
    daemon = ada.start("up")
    try:
        until((ada.folder / "fallow.sock").exists)
        assert (ada.folder.stat().st_mode & 0o777, ada.folder.stat().st_uid) == (0o700, ADA)
        assert ada("up", "--reload")[0] == 0
        assert eve("up", "--reload")[0] == 69, "there is no daemon on her machine"
    finally:
        end_group(daemon)


def test_a_folder_that_somebody_else_made_first_is_refused(people: tuple[Person, Person, Person]) -> None:
    _, eve, _ = people
    eve.folder.mkdir(mode=0o777)
    eve.folder.chmod(0o777)
    os.chown(eve.folder, ADA, ADA)
    code, _, err = eve("pick")
    assert code == 77
    assert f"{eve.folder} belongs to user {ADA}, and not to us" in err
    assert "FALLOW_CLAIM_DIR and FALLOW_SOCKET" in err
