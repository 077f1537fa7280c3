"""Become another user for good: what runs afterwards has that user's rights, and none of root's.

A process with threads cannot do this between fork and exec, so it starts this file as a program, which reads from
stdin which user to become and what to run.
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
    """Become this user: ids, groups, no capabilities, an ordinary umask. Raise NotPermitted if that fails."""
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
    """Return what the program below reads."""
    who = [account.name, account.uid, account.gid, account.home, account.shell]
    return json.dumps({"account": who, "command": list(command), "environ": dict(environ)}).encode()


def program() -> list[str]:
    """Return the command that starts it, in our environment: nothing of the user is loaded while it is root."""
    return [sys.executable, "-P", "-m", "fallow.actuators.host.become_user"]


def _drop_capabilities() -> None:
    """Drop all capabilities, also those that a program could inherit."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise NotPermitted(f"fallow cannot give up what root may do: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    """Become the user that stdin names, and run the command that it names, in a folder that all users may enter."""
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
