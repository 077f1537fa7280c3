"""Becoming another user for good: what runs afterwards has that user's rights, and nothing of root's.

A process with threads cannot do it between fork and exec, so whoever has some starts this file as a program, which
reads on stdin whom to become and what to run.
"""

import ctypes
import json
import os
import sys
from collections.abc import Mapping, Sequence

from fallow.actuators.process import spawn
from fallow.core.account import Account
from fallow.core.errors import FallowError, NotPermitted

_UMASK = 0o022
_CAPABILITIES_VERSION_3 = 0x20080522


def become(account: Account) -> None:
    """From now on we are this user: ids, groups, no capabilities, an ordinary umask; NotPermitted if that fails."""
    try:
        os.initgroups(account.name, account.gid)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    except OSError as error:
        raise NotPermitted(f"fallow cannot become {account.name}: {error.strerror}") from None
    _drop_capabilities()
    if os.getresuid() != (account.uid,) * 3 or os.getresgid() != (account.gid,) * 3:
        raise NotPermitted(f"fallow cannot become {account.name}: it is still somebody else")
    os.umask(_UMASK)


def order(account: Account, command: Sequence[str], environ: Mapping[str, str]) -> bytes:
    """What the program below reads."""
    who = [account.name, account.uid, account.gid, account.home, account.shell]
    return json.dumps({"account": who, "command": list(command), "environ": dict(environ)}).encode()


def program() -> list[str]:
    """The words that start it, in our own environment: nothing of theirs is loaded before root is given up."""
    return [sys.executable, "-P", "-m", "fallow.actuators.host.become_user"]


def _drop_capabilities() -> None:
    """All of them, also those that would be inherited by a program that asks for them."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise NotPermitted(f"fallow cannot give up what root may do: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    """Become whoever stdin says, and run what it says, in a folder that everybody may be in."""
    told = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    try:
        become(Account(*told["account"]))
        os.chdir("/")
        spawn.become(spawn.find(told["command"], told["environ"]), told["command"], told["environ"])
    except FallowError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
