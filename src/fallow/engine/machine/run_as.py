"""Decide as which user the daemon runs a command.

A config of root names the user for each command. What runs as another user is looked for, opened and run after fallow
has become that user. What runs as root must be a program that nobody but root can change.
"""

import os
import shutil
from collections.abc import Mapping, Sequence

from fallow.core.account import Account
from fallow.core.errors import NotPermitted
from fallow.core.mistake import Mistake
from fallow.core.value import value
from fallow.readers.accounts import account
from fallow.readers.file_trust import doubts

_USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@value
class RunAs:
    """The user and environment with which root runs a command of the config."""

    account: Account | None
    """The user to become; None if that is root."""
    environ: dict[str, str]


def run_as(user: str | int | None, environ: Mapping[str, str]) -> RunAs | None:
    """Return how to run as a user, by name or number; None if none is named or we are not root: as our own."""
    if user is None or os.geteuid() != 0:
        return None
    found = account(user)
    if found is None:
        raise NotPermitted(f"there is no user {user!r} to run it as")
    if found.uid == 0:
        return RunAs(None, dict(environ))
    return RunAs(found, found.environ(environ, environ.get("PATH", _USUAL)))


def doubts_of_program(command: Sequence[str], cwd: str | None, environ: Mapping[str, str]) -> list[Mistake]:
    """Return every reason not to run the program of a command as root: others can change it."""
    program = os.path.join(cwd or "/", command[0]) if os.sep in command[0] else command[0]
    found = shutil.which(program, path=environ.get("PATH", _USUAL))
    return [] if found is None else doubts(found)
