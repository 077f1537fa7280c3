"""Users and groups, by the databases of this machine and by others in a mount namespace of their own."""

import getpass
import os
import pathlib
import subprocess
import sys

import pytest

from fallow.core.unknown import Unknown
from fallow.readers.accounts import group_names, group_number, groups_of
from tests.places import LIMIT_S, REPOSITORY

ME = getpass.getuser()
NO_MOUNT = 99
BIND = f'mount --bind $1/passwd /etc/passwd && mount --bind $1/group /etc/group || exit {NO_MOUNT}; shift; exec "$@"'


def printed(folder: pathlib.Path, users: str, groups: str, program: str) -> str:
    """What a Python program prints on a machine that has these users and groups too."""
    for name, added in (("passwd", users), ("group", groups)):
        (folder / name).write_text(pathlib.Path("/etc", name).read_text() + added)
    words = ["unshare", "--mount", "sh", "-c", BIND, "sh", str(folder), sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S, cwd=REPOSITORY)
    if done.returncode == NO_MOUNT or "unshare failed" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    return done.stdout


@pytest.mark.as_root
def test_a_name_that_is_the_number_of_another_user_is_a_name_and_a_number_is_a_number(tmp_path: pathlib.Path) -> None:
    users = "10234:x:20456:20456::/home/one:/bin/sh\nanna:x:10234:10234::/home/anna:/bin/sh\n"
    asks = """
from fallow.readers.accounts import account, group_number
print(*(account(who).uid for who in ("10234", 10234, "20456", 20456, "anna")))
print(account("30000"), group_number("10234"), group_number("20456"))
"""
    said = printed(tmp_path, users, "10234:x:20456:\nanna:x:10234:\n", asks)
    assert said.split() == ["20456", "10234", "20456", "20456", "10234", "None", "20456", "20456"]


@pytest.mark.as_root
def test_a_member_of_a_group_is_in_it_and_others_are_not(tmp_path: pathlib.Path) -> None:
    names = ["staff-s", "nobody-s"]
    asks = f"from fallow.readers.accounts import groups_of as of; print(of('daemon', {names}), of('root', {names}))"
    said = printed(tmp_path, "", "staff-s:x:7001:daemon\nnobody-s:x:7002:\n", asks)
    assert said == "frozenset({'staff-s'}) frozenset()\n"


def test_a_user_is_in_their_primary_group_by_its_name_or_number() -> None:
    number = str(os.getgid())
    assert groups_of(ME, [number]) == {number}
    mine = [name for name in group_names() if group_number(name) == os.getgid()]
    assert groups_of(ME, mine) == set(mine)
    assert groups_of(ME, []) == frozenset()


def test_without_such_a_user_or_group_it_is_unknown() -> None:
    assert isinstance(groups_of("no-such-user-here", [str(os.getgid())]), Unknown)
    assert isinstance(groups_of(ME, [str(os.getgid()), "no-such-group-here"]), Unknown)
