"""Read the users and groups of this machine. The environment is not trusted: any user can set it."""

import grp
import os
import pwd
from collections.abc import Mapping, Sequence
from contextlib import suppress

from fallow.core.account import USUAL_PATH, Account, RunAs
from fallow.core.errors import NotPermitted
from fallow.core.unknown import Unknown


def account(who: str | int) -> Account | None:
    """Return the user of this number, or of this name; None if there is none.

    A text is a number only if nobody is called so: some places give their users numbers for names, which are the
    numbers of others.
    """
    with suppress(KeyError, ValueError, OverflowError):
        entry = pwd.getpwuid(who) if isinstance(who, int) else _entry(who)
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_shell)
    return None


def _entry(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        if name.isascii() and name.isdigit():
            return pwd.getpwuid(int(name))
        raise


def run_as(user: str | int | None, environ: Mapping[str, str]) -> RunAs | None:
    """Return how to run as a user, by name or number; None if none is named or we are not root: as our own."""
    if user is None or os.geteuid() != 0:
        return None
    found = account(user)
    if found is None:
        raise NotPermitted(f"there is no user {user!r} to run it as")
    if found.uid == 0:
        return RunAs(None, dict(environ))
    return RunAs(found, found.environ(environ, environ.get("PATH", USUAL_PATH)))


def home(environ_home: str | None) -> str | None:
    """Return the home of this user: HOME, but not for root, since sudo may have kept the HOME of its caller."""
    if environ_home and environ_home.startswith("/") and os.geteuid() != 0:
        return environ_home
    me = account(os.geteuid())
    return me.home if me is not None and me.home.startswith("/") else None


def from_home(path: str) -> str:
    """Return the path with `~` and `~NAME` replaced by the home; unchanged if there is no such home."""
    user, slash, rest = path.partition("/")
    if not user.startswith("~"):
        return path
    if user == "~":
        found = home(os.environ.get("HOME"))
    else:
        other = account(user[1:])
        found = None if other is None else other.home
    return path if found is None else f"{found.rstrip('/')}{slash}{rest}"


def user_name(uid: int) -> str:
    """Return the login name of a user, or the number if there is no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):  # no such user, or not a user's number at all
        return str(uid)


def is_user(name: str) -> bool:
    """Return whether the machine has a user of that name."""
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):
        return False
    return True


def names() -> list[str]:
    """Return the users that the machine lists, to suggest one for a mistyped name."""
    return [entry.pw_name for entry in pwd.getpwall()]


def group_number(name: str) -> int | None:
    """Return the number of the group of this name or number; None if there is none."""
    with suppress(KeyError, ValueError, OverflowError):
        return grp.getgrnam(name).gr_gid
    with suppress(KeyError, ValueError, OverflowError):
        return grp.getgrgid(int(name)).gr_gid if name.isascii() and name.isdigit() else None
    return None


def group_names() -> list[str]:
    """Return the groups that the machine can list, to suggest one for a mistyped name."""
    return [entry.gr_name for entry in grp.getgrall()]


def groups_of(user: str, among: Sequence[str]) -> frozenset[str] | Unknown:
    """Return those groups that the user is in, by their primary group or as a member; Unknown if that fails."""
    found = account(user)
    if found is None:
        return Unknown(f"there is no user {user!r} in the database")
    numbers = {name: group_number(name) for name in among}
    for name, number in numbers.items():
        if number is None:
            return Unknown(f"there is no group {name!r} in the database")
    try:
        theirs = {found.gid, *os.getgrouplist(found.name, found.gid)}
    except OSError as error:
        return Unknown(f"the database does not answer: {error.strerror}")
    return frozenset(name for name, number in numbers.items() if number in theirs)
