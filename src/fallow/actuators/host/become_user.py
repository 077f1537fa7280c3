"""Become another user for good: what runs afterwards has that user's rights, and none of root's.

A process with threads cannot do this between fork and exec, so it starts this file as a program, which reads from
stdin which user to become and what to run.
"""

import ctypes
import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence

from fallow.actuators.process import spawn
from fallow.core.account import Account
from fallow.core.errors import FallowError, NotPermitted

_UMASK = 0o022
_CAPABILITIES_VERSION_3 = 0x20080522
_PTRACE = 19  # CAP_SYS_PTRACE
_KEEP_CAPABILITIES = 8  # PR_SET_KEEPCAPS
_AMBIENT, _RAISE = 47, 2  # PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE
_NO_CORE = (1, 1)  # with 0 the kernel would still give one to a program that collects them


def become(account: Account, *, traces: bool = False) -> None:
    """Become this user: ids, groups, no capabilities, an ordinary umask. Raise NotPermitted if that fails.

    `traces`: keep the right to look into processes, and no other. Programs that this user starts cannot look into us.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if traces:
            resource.setrlimit(resource.RLIMIT_CORE, _NO_CORE)
            _prctl(libc, _KEEP_CAPABILITIES, 1)
        os.initgroups(account.name, account.gid)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
    except OSError as error:
        raise NotPermitted(f"fallow cannot become {account.name}: {error.strerror}") from None
    _keep_of_capabilities(libc, 1 << _PTRACE if traces else 0)
    if traces:
        _prctl(libc, _AMBIENT, _RAISE, _PTRACE)
    if os.getresuid() != (account.uid,) * 3 or os.getresgid() != (account.gid,) * 3:
        raise NotPermitted(f"fallow cannot become {account.name}: it is still somebody else")
    os.umask(_UMASK)


def order(account: Account, command: Sequence[str], environ: Mapping[str, str], *, traces: bool = False) -> bytes:
    """Return what the program below reads.

    `traces`: the command may look into processes, and else do what its user may. It is a program of ours, which may
    be where that user cannot find it.
    """
    who = [account.name, account.uid, account.gid, account.home, account.shell]
    told = {"account": who, "command": list(command), "environ": dict(environ), "traces": traces}
    return json.dumps(told).encode()


def program() -> list[str]:
    """Return the command that starts it, in our environment: nothing of the user is loaded while it is root."""
    return [sys.executable, "-P", "-m", "fallow.actuators.host.become_user"]


def _keep_of_capabilities(libc: ctypes.CDLL, kept: int) -> None:
    """Drop all capabilities but these, also those that a program could inherit."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    _demand(libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, kept)))


def _prctl(libc: ctypes.CDLL, option: int, *arguments: int) -> None:
    _demand(libc.prctl(option, *(ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0)[:4])))


def _demand(failed: int) -> None:
    if failed:
        why = os.strerror(ctypes.get_errno())
        raise NotPermitted(f"fallow cannot give up what root may do, or keep what it needs: {why}")


def main() -> None:
    """Become the user that stdin names, and run the command that it names, in a folder that all users may enter."""
    told = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    traces = told["traces"]
    try:
        ours = os.open(spawn.find(told["command"], told["environ"]), os.O_PATH) if traces else None
        become(Account(*told["account"]), traces=traces)
        os.chdir("/")
        found = spawn.find(told["command"], told["environ"]) if ours is None else ours
        spawn.become(found, told["command"], told["environ"])
    except FallowError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
