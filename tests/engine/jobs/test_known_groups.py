"""The protected groups of users: by the real databases, and by a database that hangs, fails or changes."""

import getpass
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest

from fallow.core.unknown import Unknown
from fallow.engine.jobs.known_groups import Found, KnownGroups
from fallow.readers.accounts import group_names, group_number, groups_of
from tests.harness import ManualClock
from tests.places import LIMIT_S, REPOSITORY

ME = getpass.getuser()


def test_a_user_is_in_their_primary_group_by_its_name_or_number() -> None:
    number = str(os.getgid())
    assert groups_of(ME, [number]) == {number}
    mine = [name for name in group_names() if group_number(name) == os.getgid()]
    assert groups_of(ME, mine) == set(mine)
    assert groups_of(ME, []) == frozenset()


@pytest.mark.as_root
def test_a_member_of_a_group_is_in_it_and_others_are_not(tmp_path: pathlib.Path) -> None:
    """In a mount namespace with an /etc/group of its own."""
    (tmp_path / "group").write_text("root:x:0:\ndaemon:x:1:\nstaff:x:7001:daemon\nnobody-s:x:7002:\n")
    names = "['staff', 'nobody-s']"
    look = f"from fallow.readers.accounts import groups_of as g; print(g('daemon', {names}), g('root', {names}))"
    room = f'mount --bind {tmp_path}/group /etc/group && exec {sys.executable} -c "{look}"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", room],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
        cwd=REPOSITORY,
    )
    assert done.stdout == "frozenset({'staff'}) frozenset()\n"


def test_without_such_a_user_or_group_it_is_unknown() -> None:
    assert isinstance(groups_of("no-such-user-here", [str(os.getgid())]), Unknown)
    assert isinstance(groups_of(ME, [str(os.getgid()), "no-such-group-here"]), Unknown)


def test_groups_are_looked_up_again_after_minutes_and_a_failure_is_said_once() -> None:
    answers: list[Found] = [Unknown("the database does not answer"), frozenset({"staff"})]
    clock, said, asked = ManualClock(), list[str](), list[str]()

    def look_up(user: str, _groups: Sequence[str]) -> Found:
        asked.append(user)
        return answers[0]

    known = KnownGroups(["staff"], clock, said.append, look_up)
    assert known.of("ada") == answers[0]
    clock.sleep(300.0)
    known.of("ada")
    assert ["ada is protected" in each for each in said] == [True]
    answers.pop(0)
    assert isinstance(known.of("ada"), Unknown)
    assert len(asked) == 2
    clock.sleep(300.0)
    assert known.of("ada") == {"staff"}
