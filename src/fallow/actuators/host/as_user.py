"""Use files as another user, so that the kernel decides what they may do and who owns the files.

Only the calling thread changes, and only for file systems: it cannot be signalled or traced by that user.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fallow.core.errors import NotPermitted

_NOBODY_AT_ALL = 2**32 - 1  # no id: asks for the present one


@contextmanager
def in_the_name_of(uid: int, gid: int) -> Iterator[None]:
    """Make, open and remove files as that user inside the block, with no group but `gid`.

    Nothing inside may wait or change threads. Root gives up its further groups for good: it needs none.
    """
    libc = ctypes.CDLL(None)
    me, mine = os.geteuid(), os.getegid()
    if me == 0 and uid != me and os.getgroups():
        with suppress(PermissionError):
            os.setgroups(())
    try:
        libc.setfsgid(ctypes.c_uint(gid))
        libc.setfsuid(ctypes.c_uint(uid))
        has_groups = uid != me and os.getgroups()
        if has_groups or (_present(libc.setfsuid), _present(libc.setfsgid)) != (uid, gid):
            raise NotPermitted(f"fallow may not act in the name of user {uid}")
        yield
    finally:
        libc.setfsuid(ctypes.c_uint(me))
        libc.setfsgid(ctypes.c_uint(mine))


def _present(change: "ctypes._NamedFuncPointer") -> int:
    """Return the present id: these calls report no error, only the id before."""
    return int(change(ctypes.c_uint(_NOBODY_AT_ALL))) % 2**32
