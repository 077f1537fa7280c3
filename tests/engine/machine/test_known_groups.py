"""The protected groups of users: by the real databases, and by a database that hangs, fails or changes."""

import getpass
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest

from fallow.core.unknown import Unknown
from fallow.engine.machine.known_groups import NOT_YET, Found, KnownGroups
from fallow.readers.accounts import group_names, group_number, groups_of
from tests.engine.driven import DrivenClock
from tests.places import LIMIT_S, REPOSITORY
from tests.waiting import until

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


class Database:
    """A database that answers when the test lets it."""

    def __init__(self, answer: Found) -> None:
        self.answer = answer
        self.open = threading.Event()
        self.asked = 0

    def __call__(self, _user: str, _groups: Sequence[str]) -> Found:
        self.asked += 1
        assert self.open.wait(LIMIT_S)
        return self.answer


def test_a_database_that_hangs_keeps_nobody_waiting_and_the_user_is_unknown_until_it_answers() -> None:
    database, clock, said = Database(frozenset({"staff"})), DrivenClock(), list[str]()
    known = KnownGroups(["staff"], clock, said.append, database)
    assert [known.of("ada") for _ in range(3)] == [NOT_YET] * 3
    database.open.set()
    assert until(lambda: known.of("ada"), lambda found: found is not NOT_YET) == {"staff"}
    assert database.asked == 1
    assert said == []


def test_groups_are_looked_up_again_after_minutes_and_what_is_an_hour_old_is_unknown() -> None:
    database, clock = Database(frozenset()), DrivenClock()
    database.open.set()
    known = KnownGroups(["staff"], clock, lambda _: None, database)
    until(lambda: known.of("ada"), lambda found: found == frozenset())
    database.answer = frozenset({"staff"})
    clock.sleep(299.0)
    assert known.of("ada") == frozenset()
    clock.sleep(1.0)
    until(lambda: known.of("ada"), lambda found: found == {"staff"})
    database.open.clear()
    clock.sleep(3600.0)
    assert known.of("ada") is NOT_YET
    database.open.set()
    until(lambda: known.of("ada"), lambda found: found == {"staff"})


def test_a_look_up_that_fails_is_said_once_and_tried_again() -> None:
    database, clock, said = Database(Unknown("the database does not answer")), DrivenClock(), list[str]()
    database.open.set()
    known = KnownGroups(["staff"], clock, said.append, database)
    for tries in (1, 2, 3):
        until(lambda tries=tries: known.of("ada") is not NOT_YET and database.asked == tries)
        until(lambda: len(said) == 1)
        clock.sleep(30.0)
    assert "ada is protected" in said[0]
