"""Repair the claim folder, as root: what `fallow doctor --fix` does there, and reports.

Nothing with a claim is replaced: a plain file keeps its locks when its owner changes. One with a second name is not
root's to take, since it may lead to anything, nor one that is shut to others, which may be somebody's private file:
they are replaced unless they are claimed. Anything but a plain file can have no claim, so it is removed. Everything
is done through the open folder and without following links; what is put back meanwhile is found the next time.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from fallow.actuators.claims.claims import ClaimFile
from fallow.actuators.claims.folder import is_usual
from fallow.actuators.claims.folder_care import (
    FILE_MODE,
    FOLDER_MODE,
    ClaimedElsewhere,
    access_lists,
    open_to_all,
    settle,
    take_over_file,
    take_over_folder,
)
from fallow.core.units import printable

_DRAFT, _ASIDE = ".draft-", ".aside-"
_SHARED = ("GPU-", "MIG-", "gate")
_OURS = (*_SHARED, _DRAFT, _ASIDE, "protection-", "waiting-")
_OLD_S = 60.0


def repair(path: str, wall_s: float, elsewhere: ClaimedElsewhere, *, dry_run: bool) -> Iterator[str]:
    """Repair it, or only say what would be done; yield each step as a sentence. Raise OSError if one fails."""
    say = "would " if dry_run else ""
    try:
        facts = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        yield f"{say}make {path}, root's, sticky and open to all"
        if not dry_run:
            _make(path)
        return
    if not stat.S_ISDIR(facts.st_mode):
        yield f"{say}move {path} aside, which is not a folder, and make a new one"
        if not dry_run:
            os.rename(path, f"{path}{_ASIDE}{os.urandom(4).hex()}")
            _make(path)
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        facts = os.fstat(fd)
        listed = access_lists(fd)
        if facts.st_uid != 0 or stat.S_IMODE(facts.st_mode) != FOLDER_MODE or listed:
            and_list = " and an access list" if listed else ""
            before = f"it was uid {facts.st_uid}'s with the mode {stat.S_IMODE(facts.st_mode):04o}{and_list}"
            yield f"{say}make {path} root's, sticky and open to all ({before})"
            if not dry_run and not take_over_folder(path, fd):
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        mended: dict[str, int] = {}
        for name in sorted(os.listdir(fd)):
            yield from (f"{say}{action}" for action in _mend(path, fd, name, wall_s, dry_run=dry_run))
            if not dry_run and name.startswith(_SHARED):
                with suppress(OSError):
                    mended[name] = os.stat(name, dir_fd=fd, follow_symlinks=False).st_ino
        for name, inode in mended.items():  # after all, since `elsewhere` looks once for claims on earlier files
            _settle(path, fd, name, inode, elsewhere)
    finally:
        os.close(fd)


def foreign_file(path: str) -> str | None:
    """Return a file that shows that a folder was named by mistake; None if it is a claim folder.

    In a folder that is open to all, what other users have put there shows nothing.
    """
    if is_usual(path):
        return None
    try:
        folder = os.stat(path, follow_symlinks=False)
        names = [name for name in os.listdir(path) if not name.startswith(_OURS)]
    except (FileNotFoundError, NotADirectoryError):
        return None
    owners = {0} if stat.S_IMODE(folder.st_mode) & FOLDER_MODE == FOLDER_MODE else {0, folder.st_uid}
    for name in sorted(names):
        with suppress(FileNotFoundError):
            if os.stat(f"{path}/{name}", follow_symlinks=False).st_uid in owners:
                return printable(name)
    return None


def _make(path: str) -> None:
    os.mkdir(path, 0o700)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(fd, FOLDER_MODE)
    finally:
        os.close(fd)


def _mend(path: str, folder: int, name: str, wall_s: float, *, dry_run: bool) -> Iterator[str]:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    whose, shown = f"uid {facts.st_uid}'s", f"{path}/{printable(name)}"
    if name.startswith(_DRAFT):
        if wall_s - facts.st_mtime > _OLD_S and not stat.S_ISDIR(facts.st_mode):
            yield f"remove {shown}, {whose}, left by a launch that was killed"
            _unless(dry_run, folder, name)
    elif not name.startswith(_SHARED):
        return  # a protection belongs to its owner, even if it makes no sense
    elif not stat.S_ISREG(facts.st_mode):
        yield f"take {shown} away, which is {whose} and no plain file"
        if not dry_run and stat.S_ISDIR(facts.st_mode):
            os.rename(name, f"{_ASIDE}{os.urandom(4).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
        else:
            _unless(dry_run, folder, name)
    else:
        yield from _take_over_file(path, folder, name, whose, dry_run=dry_run)


def _take_over_file(path: str, folder: int, name: str, whose: str, *, dry_run: bool) -> Iterator[str]:
    shown = f"{path}/{printable(name)}"
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except BlockingIOError:  # under a lease nobody else has it open, so nobody else's claim is on it
        yield f"take {shown} away, which is {whose}, who has a lease on it that keeps others from opening it"
        _unless(dry_run, folder, name)
        return
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            return  # changed meanwhile; seen the next time
        if facts.st_uid == 0 and stat.S_IMODE(facts.st_mode) == FILE_MODE and not access_lists(fd):
            return
        alone, is_open = facts.st_nlink == 1, open_to_all(facts)
        how = "is shut to others" if alone else "has a second name"
        if alone and is_open:
            yield f"make {shown} root's and open to all, which was {whose}"
            if not dry_run:
                take_over_file(fd)
        elif ClaimFile(fd).is_claimed_for(path, name):
            yield f"leave {shown} as it is, which is {whose}, {how} and is claimed: do this again later"
        else:
            yield f"take {shown} away, which is {whose} and {how}"
            _unless(dry_run, folder, name)
    finally:
        os.close(fd)


def _settle(path: str, folder: int, name: str, inode: int, elsewhere: ClaimedElsewhere) -> None:
    """Settle a file, unless another one has got its name since."""
    with suppress(OSError):  # it is settled the next time
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        try:
            if os.fstat(fd).st_ino == inode:
                settle(path, folder, name, fd, elsewhere)
        finally:
            os.close(fd)


def _unless(dry_run: bool, folder: int, name: str) -> None:
    if not dry_run:
        os.unlink(name, dir_fd=folder)
