"""The folder of claims, which every user of the machine shares, none of them root.

One file for each GPU, open to all, in a sticky folder. `fs.protected_regular` forbids O_CREAT on a file of
somebody else there, so a file is opened without it first and created only where there is none.

Whoever owns the folder or a file could remove it, so root takes over what it uses here (see folder_care). What stands
in the place of one file spoils that file alone: its GPU is refused, and the others are given.
"""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from fallow.actuators.claims import folder_care
from fallow.actuators.claims.folder_care import NOT_PLAIN
from fallow.core.errors import FallowError, NotPermitted, WrongUsage

_SHARED = "/run/lock"
_OURS = "/run/lock/fallow"
_ELSEWHERE = "/tmp/fallow-claims"  # noqa: S108  shared on purpose; opened without following links
_OPEN_TO_ALL = folder_care.FOLDER_MODE
_ELSE_NAME = "or name another folder in FALLOW_CLAIM_DIR, the same for every user"
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # whoever runs us says which limit that is
_BEING_MADE = 0o700
_YIELDS = 1000
_TRIES = 50  # against somebody who removes a file as often as it is made
_MOST_READ = 65536
DRAFT = ".draft-"


class FileRefused(NotPermitted):
    """One file of the folder cannot be used; whose it is, if that can be told."""

    def __init__(self, sentence: str, uid: int | None) -> None:
        super().__init__(sentence)
        self.uid = uid


def folder_path(environ: Mapping[str, str]) -> str:
    """FALLOW_CLAIM_DIR, else /run/lock/fallow, else /tmp/fallow-claims.

    The choice hangs on the machine and not on who asks: two users with different rights must never end up in
    two folders.
    """
    named = environ.get("FALLOW_CLAIM_DIR")
    if named:
        if not os.path.isabs(named):
            raise WrongUsage(f"FALLOW_CLAIM_DIR={named} is relative: claims bind only who looks in the same folder")
        return named
    try:
        everybody = stat.S_IMODE(os.stat(_SHARED).st_mode) & _OPEN_TO_ALL == _OPEN_TO_ALL
    except OSError:
        everybody = False
    return _OURS if everybody or os.path.isdir(_OURS) else _ELSEWHERE


class ClaimFolder:
    """The open folder."""

    def __init__(self, path: str, *, take_over: bool = True) -> None:
        """`take_over`: as root, make the folder root's if it is somebody else's; else it is only looked at."""
        self.path = path
        self._fd = _open_folder(path, take_over=take_over)

    @property
    def owner_uid(self) -> int:
        """Whose the folder is: they can remove what is in it."""
        return os.fstat(self._fd).st_uid

    def close(self) -> None:
        """Let go of the folder; locks live on in the files."""
        os.close(self._fd)

    @property
    def fd(self) -> int:
        """The folder itself, to name files from; another one after `refresh`."""
        return self._fd

    @property
    def identity(self) -> tuple[int, int]:
        """Which folder it is; another one after it was cleaned away and made anew."""
        facts = os.fstat(self._fd)
        return facts.st_dev, facts.st_ino

    def refresh(self) -> None:
        """Look again where everybody looks: the folder may have been cleaned away and made anew."""
        if not self._is_in_place():
            fresh = _open_folder(self.path)
            os.close(self._fd)
            self._fd = fresh

    def open(self, name: str) -> int:
        """A file of the folder for reading and writing, made if it is not there; FileRefused if it is not fit."""
        safe = _file_name(name)
        try:
            fd = self._open_or_create(safe)
        except OSError as error:
            if error.errno in _OF_THE_PROCESS:
                raise
            raise self._complaint(safe, error) from None
        why = folder_care.unfit(fd)
        if why is not None:
            uid = os.fstat(fd).st_uid
            os.close(fd)
            raise FileRefused(f"its file {self.path}/{safe} {why}", uid)
        return fd

    def peek(self, name: str) -> int | None:
        """A file of the folder for reading only; None where nobody made one yet."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        safe = _file_name(name)
        try:
            fd = os.open(safe, flags, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _OF_THE_PROCESS:
                raise
            raise self._complaint(safe, error) from None
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            os.close(fd)
            raise FileRefused(f"its file {self.path}/{safe} {NOT_PLAIN}", facts.st_uid)
        return fd

    def still_there(self, name: str, fd: int) -> bool:
        """Whether the open file is still the one that others find under its name, in the folder where they look."""
        try:
            found = os.stat(_file_name(name), dir_fd=self._fd, follow_symlinks=False)
            return os.path.samestat(found, os.fstat(fd)) and self._is_in_place()
        except OSError:
            return False

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def inode(self, name: str) -> int:
        """By which the kernel names the file of that name now; 0 if there is none."""
        try:
            return os.stat(_file_name(name), dir_fd=self._fd, follow_symlinks=False).st_ino
        except OSError:
            return 0

    def is_roots(self, name: str) -> bool:
        """Whether nobody but root can take a file away, nor the folder, nor a folder above it."""
        try:
            facts = os.stat(_file_name(name), dir_fd=self._fd, follow_symlinks=False)
            above, path = [os.fstat(self._fd)], os.path.abspath(self.path)
            while path != "/":
                path = os.path.dirname(path)
                above.append(os.stat(path, follow_symlinks=False))
        except OSError:
            return False
        return facts.st_uid == 0 and all(_keeps(folder) for folder in above)

    def names(self) -> list[str]:
        """What is in the folder."""
        return os.listdir(self._fd)

    def read(self, name: str) -> tuple[bytes, int]:
        """The content of a file, and the user whose it is; OSError if it cannot be read."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=self._fd)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, NOT_PLAIN)
            return os.read(fd, _MOST_READ), facts.st_uid
        finally:
            os.close(fd)

    def owner(self, name: str) -> int:
        """The user whose a file is."""
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_uid

    def add(self, name: str, content: bytes, mode: int = 0o644) -> bool:
        """A new file, with its content and rights from its first moment on; False if there is one of that name."""
        draft = f"{DRAFT}{os.urandom(12).hex()}"  # nobody can have made it before
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        try:
            os.fchmod(fd, mode)  # whatever the umask is
            os.write(fd, content)
            os.link(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileExistsError:
            return False
        finally:
            os.close(fd)
            with suppress(FileNotFoundError):  # whoever owns the folder may have been faster
                os.unlink(draft, dir_fd=self._fd)
        return True

    def remove(self, name: str) -> None:
        """Take a file away; the folder is sticky, so only its owner or root can."""
        os.unlink(name, dir_fd=self._fd)

    def _open_or_create(self, name: str) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        for _ in range(_TRIES):
            try:
                return os.open(name, flags, dir_fd=self._fd)
            except FileNotFoundError:
                self.add(name, b"", folder_care.FILE_MODE)  # if somebody was faster, we open theirs
        raise OSError(errno.EBUSY, "somebody removes it as often as it is made")

    def _complaint(self, name: str, error: OSError) -> FallowError:
        path = f"{self.path}/{name}"
        if error.errno in _OF_THE_DISK:
            return FallowError(f"cannot use {path}: {error.strerror}; put that right, {_ELSE_NAME}")
        if error.errno == errno.EROFS:
            return NotPermitted(f"cannot use {path}: its file system is mounted read-only; remount it, {_ELSE_NAME}")
        try:
            uid = os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_uid
        except OSError:
            uid = None
        if error.errno == errno.ELOOP:
            return FileRefused(f"its file {path} is a symbolic link, which fallow does not follow", uid)
        if error.errno in (errno.EISDIR, errno.ENXIO):
            return FileRefused(f"its file {path} {NOT_PLAIN}", uid)
        shut = error.errno in (errno.EACCES, errno.EPERM)
        return FileRefused(f"its file {path} {'is shut to us' if shut else f'cannot be used: {error.strerror}'}", uid)


def _keeps(folder: os.stat_result) -> bool:
    """Whether what is root's in a folder stays there. A link in its place may lead anywhere, and does not count."""
    shut = not folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(folder.st_mode) and folder.st_uid == 0 and (shut or bool(folder.st_mode & stat.S_ISVTX))


@lru_cache(maxsize=256)
def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter == "-" else "_" for letter in name)


def _open_folder(path: str, *, take_over: bool = True) -> int:
    made = _make(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise NotPermitted(f"the claim folder {path} is a symbolic link, which fallow does not follow") from None
        raise NotPermitted(
            f"cannot open the claim folder {path}: {error.strerror}; see what is there, {_ELSE_NAME}"
        ) from None
    try:
        _fit(path, fd, made=made, take_over=take_over)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make(path: str) -> bool:
    """Make the folder; whether it was not there before."""
    try:
        os.mkdir(path, _BEING_MADE)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _OF_THE_DISK:
            raise FallowError(
                f"cannot make the claim folder {path}: {error.strerror}; put that right, {_ELSE_NAME}"
            ) from None
        why = "its file system is mounted read-only" if error.errno == errno.EROFS else error.strerror
        raise NotPermitted(f"cannot make the claim folder {path}: {why}; let root make it, {_ELSE_NAME}") from None
    return True


def _fit(path: str, fd: int, *, made: bool, take_over: bool) -> None:
    """Open a new folder to all; as root take over one of somebody else. NotPermitted if it cannot be used."""
    facts = os.fstat(fd)
    if made:
        os.fchmod(fd, _OPEN_TO_ALL)
    elif take_over and os.geteuid() == 0 and facts.st_uid != 0 and _may_take_over(path, facts):
        folder_care.take_over_folder(path, fd)  # if that is not to be, whose it is stays to be seen
    if _open_to_us(fd):
        return
    if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
        where = f"the claim folder {path} is on a file system that is mounted read-only"
        raise NotPermitted(f"{where}; remount it, {_ELSE_NAME}")
    raise NotPermitted(f"the claim folder {path} is shut to this user; as its owner or root run: chmod 1777 {path}")


def _open_to_us(fd: int) -> bool:
    for _ in range(_YIELDS):
        if os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
            return True
        if stat.S_IMODE(os.fstat(fd).st_mode) != _BEING_MADE:
            return False
        os.sched_yield()  # whoever makes it opens it to all the next moment
    return False


def _may_take_over(path: str, facts: os.stat_result) -> bool:
    """Whether root may make the folder its own by itself: it is where everybody looks, or its owner opened it to all.

    FALLOW_CLAIM_DIR may name a user's home by mistake; that is not taken from them.
    """
    return path in (_OURS, _ELSEWHERE) or stat.S_IMODE(facts.st_mode) & _OPEN_TO_ALL == _OPEN_TO_ALL
