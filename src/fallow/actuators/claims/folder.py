"""The claim folder, which all users of the machine share.

It is sticky and has one file for each GPU, open to all. `fs.protected_regular` forbids O_CREAT on another user's
file there, so a file is opened without it first and created only if there is none.

The owner of the folder or of a file could remove it, so root takes over what it uses here (see folder_care). If
something else is in the place of one file, only its GPU is refused.
"""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from fallow.actuators.claims import folder_care
from fallow.actuators.claims.folder_care import NOT_PLAIN
from fallow.core.errors import OF_THE_DISK, FallowError, NotPermitted, WrongUsage
from fallow.core.shell_word import shell_word

_SHARED = "/run/lock"
_OURS = "/run/lock/fallow"
_ELSEWHERE = "/tmp/fallow-claims"  # noqa: S108  shared on purpose; opened without following links
_OPEN_TO_ALL = folder_care.FOLDER_MODE
_ELSE_NAME = "or name another folder in FALLOW_CLAIM_DIR, the same for every user"
_OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # the command line says which limit that is
_BEING_MADE = 0o700
_YIELDS = 10_000
_TRIES = 50  # in case the file is removed again and again
_MOST_READ = 65536
DRAFT = ".draft-"


class FileRefused(NotPermitted):
    """One file of the folder cannot be used; `uid` is its owner, if that is known."""

    def __init__(self, sentence: str, uid: int | None) -> None:
        super().__init__(sentence)
        self.uid = uid


def folder_path(environ: Mapping[str, str]) -> str:
    """Return FALLOW_CLAIM_DIR, else /run/lock/fallow, else /tmp/fallow-claims.

    The choice depends on the machine and not on the user: two users with different rights must never use two
    folders.
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


def is_usual(path: str) -> bool:
    """Return whether a folder is the one that is used where FALLOW_CLAIM_DIR is not set."""
    return path in (_OURS, _ELSEWHERE)


class ClaimFolder:
    """The open folder."""

    def __init__(
        self, path: str, *, take_over: bool = True, elsewhere: folder_care.ClaimedElsewhere | None = None
    ) -> None:
        """Open it. As root: `take_over` makes another user's folder root's; with `elsewhere`, files are settled."""
        self.path = path
        self._elsewhere = elsewhere if os.geteuid() == 0 else None
        self._fd = _open_folder(path, take_over=take_over)

    @property
    def owner_uid(self) -> int:
        """Return the owner of the folder, who can remove what is in it."""
        return os.fstat(self._fd).st_uid

    def close(self) -> None:
        """Close the folder; locks on its files stay."""
        os.close(self._fd)

    @property
    def fd(self) -> int:
        """Return the descriptor of the folder; it may be another one after `refresh`."""
        return self._fd

    def refresh(self) -> None:
        """Open the folder again if it was removed and made again."""
        if not folder_care.names(self.path, self._fd):
            fresh = _open_folder(self.path)
            os.close(self._fd)
            self._fd = fresh

    def open(self, name: str) -> int:
        """Open a file of the folder for reading and writing, made if missing; raise FileRefused if it is unfit."""
        fd = self.open_unsettled(name)
        if self._elsewhere is not None:
            self.settle(name, fd, self._elsewhere)
        return fd

    def settle(self, name: str, fd: int, elsewhere: folder_care.ClaimedElsewhere) -> None:
        """Let an open file of root's show every claim on its GPU, unless one may be left on an earlier file."""
        folder_care.settle(self.path, self._fd, file_name(name), fd, elsewhere)

    def open_unsettled(self, name: str) -> int:
        """Open a file as `open` does, and leave for later whether it shows every claim on its GPU."""
        safe = file_name(name)
        try:
            fd = self._open_or_create(safe)
        except OSError as error:
            raise self._complaint(safe, error) from None
        why = folder_care.unfit(fd)
        if why is not None:
            uid = os.fstat(fd).st_uid
            os.close(fd)
            raise FileRefused(f"its file {self.path}/{safe} {why}", uid)
        return fd

    def peek(self, name: str) -> int | None:
        """Open a file of the folder for reading only; None if there is none yet; raise FileRefused if it is unfit."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        safe = file_name(name)
        try:
            fd = os.open(safe, flags, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._complaint(safe, error) from None
        facts = os.fstat(fd)
        is_plain = stat.S_ISREG(facts.st_mode)
        if not is_plain or not folder_care.open_to_all(facts):
            os.close(fd)
            why = "is shut to others" if is_plain else NOT_PLAIN
            raise FileRefused(f"its file {self.path}/{safe} {why}", facts.st_uid)
        return fd

    def still_there(self, name: str, identity: tuple[int, int]) -> bool:
        """Return whether the file of this device and inode is still the one that others find under its name."""
        try:
            found = os.stat(f"{self.path}/{file_name(name)}", follow_symlinks=False)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == identity

    def inode(self, name: str) -> int:
        """Return the inode number of the file of that name now; 0 if there is none."""
        try:
            return os.stat(file_name(name), dir_fd=self._fd, follow_symlinks=False).st_ino
        except OSError:
            return 0

    def is_settled(self, name: str) -> bool:
        """Return whether a file shows every claim on its GPU: only root can replace it, and none is on another."""
        try:
            facts = os.stat(file_name(name), dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return folder_care.is_settled(facts) and folder_care.keeps_files(self.path, self._fd)

    def names(self) -> list[str]:
        """Return the names of all files in the folder."""
        return os.listdir(self._fd)

    def read(self, name: str, most_bytes: int = _MOST_READ) -> tuple[bytes, os.stat_result]:
        """Return the content of a file and its facts; raise OSError if it cannot be read."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=self._fd)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, f"it {NOT_PLAIN}")
            return os.read(fd, most_bytes), facts
        finally:
            os.close(fd)

    def add(self, name: str, content: bytes, mode: int = 0o644) -> bool:
        """Add a file that has its content and mode from the first moment; False if there is one of that name."""
        draft = f"{DRAFT}{os.urandom(12).hex()}"  # a random name that nobody can have taken
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        try:
            os.fchmod(fd, mode)  # whatever the umask is
            if mode == folder_care.FILE_MODE:
                folder_care.begin_unsettled(fd)
            os.write(fd, content)
            os.link(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileExistsError:
            return False
        finally:
            os.close(fd)
            with suppress(FileNotFoundError):  # the owner of the folder may have removed it
                os.unlink(draft, dir_fd=self._fd)
        return True

    def put_anew(self, name: str) -> None:
        """Put a new file in the place of one that all users may write to; who has the old one open keeps that."""
        draft = f"{DRAFT}{os.urandom(12).hex()}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        try:
            os.fchmod(fd, folder_care.FILE_MODE)
            folder_care.begin_unsettled(fd)
            os.rename(draft, file_name(name), src_dir_fd=self._fd, dst_dir_fd=self._fd)
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        """Remove a file; the folder is sticky, so only its owner or root can."""
        os.unlink(name, dir_fd=self._fd)

    def _open_or_create(self, name: str) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        for _ in range(_TRIES):
            try:
                return os.open(name, flags, dir_fd=self._fd)
            except FileNotFoundError:
                self.add(name, b"", folder_care.FILE_MODE)  # if another process was faster, its file is opened
        raise OSError(errno.EBUSY, "somebody removes it as often as it is made")

    def _complaint(self, name: str, error: OSError) -> FallowError | OSError:
        path = f"{self.path}/{name}"
        if error.errno in _OF_THE_PROCESS:
            return error
        if error.errno in OF_THE_DISK:
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


@lru_cache(maxsize=256)
def file_name(name: str) -> str:
    """Return the name of the file of a GPU."""
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
    """Make the folder; return whether it did not exist."""
    try:
        os.mkdir(path, _BEING_MADE)
    except FileExistsError:
        _wait_until_made(path)
        return False
    except OSError as error:
        if error.errno in OF_THE_DISK:
            raise FallowError(
                f"cannot make the claim folder {path}: {error.strerror}; put that right, {_ELSE_NAME}"
            ) from None
        why = "its file system is mounted read-only" if error.errno == errno.EROFS else error.strerror
        raise NotPermitted(f"cannot make the claim folder {path}: {why}; let root make it, {_ELSE_NAME}") from None
    return True


def _wait_until_made(path: str) -> None:
    """Wait while the folder is shut to us because another process makes it, which opens it to all in a moment."""
    with suppress(FileNotFoundError):
        for _ in range(_YIELDS):
            if os.access(path, os.R_OK, effective_ids=True) or stat.S_IMODE(os.lstat(path).st_mode) != _BEING_MADE:
                return
            os.sched_yield()


def _fit(path: str, fd: int, *, made: bool, take_over: bool) -> None:
    """Open a new folder to all; as root take over another user's. Raise NotPermitted if it cannot be used."""
    facts = os.fstat(fd)
    if made:
        os.fchmod(fd, _OPEN_TO_ALL)
    elif take_over and os.geteuid() == 0 and facts.st_uid != 0 and _may_take_over(path, facts):
        folder_care.take_over_folder(path, fd)  # if that fails, the owner is checked later
    if os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
        return
    if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
        where = f"the claim folder {path} is on a file system that is mounted read-only"
        raise NotPermitted(f"{where}; remount it, {_ELSE_NAME}")
    way = f"as its owner or root run: chmod 1777 {shell_word(path)}"
    raise NotPermitted(f"the claim folder {path} is shut to this user; {way}")


def _may_take_over(path: str, facts: os.stat_result) -> bool:
    """Return whether root may take over the folder: it is the usual one, or its owner opened it to all.

    FALLOW_CLAIM_DIR may name a user's home by mistake, which must not be taken over.
    """
    return is_usual(path) or stat.S_IMODE(facts.st_mode) & _OPEN_TO_ALL == _OPEN_TO_ALL
