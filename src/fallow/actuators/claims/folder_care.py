"""Check who owns the claim folder and its files; as root, take over what another user made first.

In a sticky folder, its owner and the owner of a file can remove the file; then a claim on it excludes no process.
So root takes over the folder, and each GPU's file that it opens. Ownership is changed through open descriptors
only, and then the path is checked once more. Locks stay, since the files stay the same.

A claim may still be held on a file that had the name before and was removed. So what root makes or takes over has
another group than root's at first, and gets root's once no such claim is left (`settle`). The owner and the group
change in one step, so there is no moment at which a file looks settled and is not.

An access list (ACL) of the first owner would stay too, and could shut single users out of what is open to all by its
mode; so it is removed.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress

FOLDER_MODE = 0o1777
FILE_MODE = 0o666
NOT_PLAIN = "is not a plain file"
_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_TRIES = 10
_NOT_SETTLED = 65534  # the group of nobody

ClaimedElsewhere = Callable[[str, int], bool]  # whether a GPU may be claimed by another file than that of an inode


def take_over_folder(path: str, fd: int) -> bool:
    """Make an open folder root's, sticky and open to all; return whether that worked."""
    for _ in range(_TRIES):
        try:
            os.fchown(fd, 0, 0)
            drop_access_lists(fd)
            os.fchmod(fd, FOLDER_MODE)
        except OSError:
            return False  # root without that right, as in a container
        if names(path, fd):
            return True
        with suppress(OSError):  # another folder is in its place; that one is taken over next
            fresh = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            os.dup2(fresh, fd, inheritable=False)
            os.close(fresh)
    return False


def take_over_file(fd: int) -> None:
    """Make an open file root's and open to all, not settled; raise OSError if that is not permitted."""
    os.fchown(fd, 0, _NOT_SETTLED)
    drop_access_lists(fd)
    os.fchmod(fd, FILE_MODE)


def begin_unsettled(fd: int) -> None:
    """Let a file that root makes begin as not settled, before it has its name."""
    if os.geteuid() == 0:
        with suppress(OSError):  # root without that right, as in a container
            os.fchown(fd, 0, _NOT_SETTLED)


def settle(path: str, folder: int, name: str, fd: int, elsewhere: ClaimedElsewhere) -> None:
    """Give a file of root's to root's group, if nobody else can replace it and no claim on an earlier one is left."""
    facts = os.fstat(fd)
    if facts.st_uid == 0 != facts.st_gid and keeps_files(path, folder) and not elsewhere(name, facts.st_ino):
        with suppress(OSError):  # then it stays in doubt
            os.fchown(fd, 0, 0)


def is_settled(facts: os.stat_result) -> bool:
    """Return whether a file is root's, and no claim on an earlier file of its name was left when root looked.

    A file with a second name may have got this one from another user, after root looked.
    """
    return facts.st_uid == 0 == facts.st_gid and facts.st_nlink == 1


def keeps_files(path: str, folder: int) -> bool:
    """Return whether only root can remove root's files from an open folder, and the folders on the path to it."""
    try:
        above, path = [os.fstat(folder)], os.path.abspath(path)
        while path != "/":
            path = os.path.dirname(path)
            above.append(os.stat(path, follow_symlinks=False))
    except OSError:
        return False
    return all(_keeps(each) for each in above)


def _keeps(folder: os.stat_result) -> bool:
    """Return whether only root can remove root's files from a folder. A link in its place does not count."""
    shut = not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(folder.st_mode) and folder.st_uid == 0 and (shut or bool(folder.st_mode & stat.S_ISVTX))


def names(path: str, fd: int) -> bool:
    """Return whether the path leads to the open folder."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:
        return False


def open_to_all(facts: os.stat_result) -> bool:
    """Return whether all users may read and write a file. Launches make none that is not so, at any moment."""
    return stat.S_IMODE(facts.st_mode) & FILE_MODE == FILE_MODE


def unfit(fd: int) -> str | None:
    """Return why an open file cannot be a claim file, or None. As root, take it over if it is another user's.

    A file that is not open to all stays so, whoever owns it: a neighbour can have moved a private file of anybody
    here, from a folder of hers. Only a file without a second name is changed: a hard link could lead to anything on
    this file system.
    """
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        return NOT_PLAIN
    alone = facts.st_nlink == 1
    if not open_to_all(facts):
        return "is shut to others" if alone else "has a second name and is not open to all"
    if os.geteuid() == 0 and alone:
        with suppress(OSError):  # root without that right, as in a container
            if facts.st_uid != 0:
                take_over_file(fd)
            else:
                drop_access_lists(fd)
    return None


def access_lists(fd: int) -> list[str]:
    """Return the names of the access lists that an open file or folder has besides its mode."""
    try:
        return [name for name in os.listxattr(fd) if name in _ACCESS_LISTS]
    except OSError:  # a file system without any
        return []


def drop_access_lists(fd: int) -> None:
    """Remove the access lists of an open file or folder; raise OSError if that is not permitted."""
    for name in access_lists(fd):
        os.removexattr(fd, name)
