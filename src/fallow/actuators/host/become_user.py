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

from fallow.actuators.process import programs, spawn
from fallow.actuators.process.programs import Ran
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
    os.umask(_UMASK)


def run_as(
    account: Account,
    command: Sequence[str],
    environ: Mapping[str, str],
    limit_s: float,
    ours: Mapping[str, str],
    *,
    traces: bool = False,
) -> Ran:
    """Run a command to its end as this user.

    It is started in `ours`, the environment of this process: nothing of the user's is loaded as root.

    `traces`: the command may look into processes, and else do what its user may. It is a program of ours, which may
    be where that user cannot find it.
    """
    who = [account.name, account.uid, account.gid, account.home, account.shell]
    told = {"account": who, "command": list(command), "environ": dict(environ), "traces": traces}
    return programs.run([sys.executable, "-P", "-m", __name__], ours, limit_s, json.dumps(told).encode())


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
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    command, environ, traces = told["command"], told["environ"], told["traces"]
    try:
        ours = os.open(spawn.find(command, environ), os.O_PATH) if traces else None
        become(Account(*told["account"]), traces=traces)
        os.chdir("/")
        spawn.become(spawn.find(command, environ) if ours is None else ours, command, environ)
    except FallowError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
