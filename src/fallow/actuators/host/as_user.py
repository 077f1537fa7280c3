"""Use files as another user, so that the kernel decides what they may do and who owns the files.

Only the calling thread changes, and only for file systems: it cannot be signalled or traced by that user.
"""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fallow.core.errors import NotPermitted

_NOBODY_AT_ALL = 2**32 - 1  # no id: asks for the present one
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206, "armv7l": 206, "i686": 206}
"""The number of the system call. That of libc changes the groups of all threads."""


@contextmanager
def in_the_name_of(uid: int, gid: int) -> Iterator[None]:
    """Make, open and remove files as that user inside the block, with no group but `gid`.

    Nothing inside may wait or change threads.
    """
    libc = ctypes.CDLL(None)
    me, mine, groups = os.geteuid(), os.getegid(), os.getgroups()
    try:
        libc.setfsgid(ctypes.c_uint(gid))
        libc.setfsuid(ctypes.c_uint(uid))
        alone = _set_groups(libc, ()) if groups and uid != me else True  # one's own groups are no others'
        if not alone or (_present(libc.setfsuid), _present(libc.setfsgid)) != (uid, gid):
            raise NotPermitted(f"fallow may not act in the name of user {uid}")
        yield
    finally:
        libc.setfsuid(ctypes.c_uint(me))
        libc.setfsgid(ctypes.c_uint(mine))
        if groups and uid != me:
            _set_groups(libc, groups)


def _set_groups(libc: ctypes.CDLL, groups: Sequence[int]) -> bool:
    """Give the calling thread these groups; return whether that was possible."""
    number = _SETGROUPS.get(os.uname().machine)
    if number is None:
        return False
    ids = (ctypes.c_uint * len(groups))(*groups)
    return int(libc.syscall(ctypes.c_long(number), ctypes.c_long(len(groups)), ids)) == 0


def _present(change: "ctypes._NamedFuncPointer") -> int:
    """Return the present id: these calls report no error, only the id before."""
    return int(change(ctypes.c_uint(_NOBODY_AT_ALL))) % 2**32
