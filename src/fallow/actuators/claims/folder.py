"""The claim folder, which all users of the machine share.

It is sticky and has one file for each GPU, open to all. `fs.protected_regular` forbids O_CREAT on another user's
file there, so a file is opened without it first and created only if there is none.

    GPU-…         0666  claims on one GPU: see claims.py
    gate          0666  its byte 0 is locked while a launch joins the queue or a pick is made
    waiting-N     0644  the label of a launch that waits: see queue.py
    protection-N  0644  one protection: see protections.py
    .draft-…      0600  a file that is written; it gets its name when it is complete

The owner of the folder or of a file can remove it. So the folder should be root's, and in a folder of another user
root creates, writes and removes nothing. If something else is in the place of one file, only its GPU is refused.
"""

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from fallow.core.errors import OF_THE_DISK, FallowError, NotPermitted, WrongUsage
from fallow.core.shell_word import shell_word

_SHARED = "/run/lock"
_OURS = "/run/lock/fallow"
_ELSEWHERE = "/tmp/fallow-claims"  # noqa: S108  shared on purpose; opened without following links
_FOLDER_MODE, _FILE_MODE = 0o1777, 0o666
_NOT_PLAIN = "is not a plain file"
GATE = "gate"
_ELSE_NAME = "or name another folder in FALLOW_CLAIM_DIR, the same for every user"
_OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # the command line says which limit that is
_NOT_MAPPED = 65534  # how root of the machine shows in a container with user IDs of its own
_TRIES = 50  # in case the file is removed again and again
_MOST_READ = 65536
_DRAFT = ".draft-"


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
        everybody = stat.S_IMODE(os.stat(_SHARED).st_mode) & _FOLDER_MODE == _FOLDER_MODE
    except OSError:
        everybody = False
    return _OURS if everybody or os.path.isdir(_OURS) else _ELSEWHERE


def to_give_it_to_root(path: str) -> str:
    """Return what root runs to make a claim folder root's and open to all."""
    if path == _OURS:
        return "as root run: systemd-tmpfiles --create fallow.conf (docs/guides/install.md has that file)"
    return f"as root run: chown root: {shell_word(path)} && chmod 1777 {shell_word(path)}"


class ClaimFolder:
    """The open folder."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = _open_folder(path)

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
        if not self._is_at_its_path():
            fresh = _open_folder(self.path)
            os.close(self._fd)
            self._fd = fresh

    def open(self, name: str) -> int:
        """Open a file of the folder for reading and writing, made if missing; raise FileRefused if it is unfit."""
        self.demand_change()
        safe = file_name(name)
        try:
            fd = self._open_or_create(safe)
        except OSError as error:
            raise self._complaint(safe, error) from None
        return self._fit(safe, fd)

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
        return self._fit(safe, fd)

    def demand_change(self) -> None:
        """Raise NotPermitted if we are root and the folder is another user's: root changes nothing there."""
        uid = self.owner_uid
        if os.geteuid() == 0 and uid not in (0, _NOT_MAPPED):
            whose = f"the claim folder {self.path} is of user ID {uid}, and root changes nothing in it"
            raise NotPermitted(f"{whose}; {to_give_it_to_root(self.path)}, {_ELSE_NAME}")

    def still_there(self, name: str, identity: tuple[int, int]) -> bool:
        """Return whether the file of this device and inode is still the one that others find under its name."""
        try:
            found = os.stat(f"{self.path}/{file_name(name)}", follow_symlinks=False)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == identity

    def names(self) -> list[str]:
        """Return the names of all files in the folder."""
        return os.listdir(self._fd)

    def read(self, name: str, most_bytes: int = _MOST_READ) -> tuple[bytes, os.stat_result]:
        """Return the content of a file and its facts; raise OSError if it cannot be read."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=self._fd)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise OSError(errno.EINVAL, f"it {_NOT_PLAIN}")
            return os.read(fd, most_bytes), facts
        finally:
            os.close(fd)

    def add(self, name: str, content: bytes, mode: int = 0o644) -> bool:
        """Add a file that has its content and mode from the first moment; False if there is one of that name."""
        self.demand_change()
        draft = f"{_DRAFT}{os.urandom(12).hex()}"  # a random name that nobody can have taken
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        try:
            os.fchmod(fd, mode)  # whatever the umask is
            os.write(fd, content)
            os.link(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileExistsError:
            return False
        finally:
            os.close(fd)
            with suppress(FileNotFoundError):  # the owner of the folder may have removed it
                os.unlink(draft, dir_fd=self._fd)
        return True

    def remove(self, name: str) -> None:
        """Remove a file; the folder is sticky, so only its owner or root can."""
        self.demand_change()
        os.unlink(name, dir_fd=self._fd)

    def _open_or_create(self, name: str) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        for _ in range(_TRIES):
            try:
                return os.open(name, flags, dir_fd=self._fd)
            except FileNotFoundError:
                self.add(name, b"", _FILE_MODE)  # if another process was faster, its file is opened
        raise OSError(errno.EBUSY, "somebody removes it as often as it is made")

    def _fit(self, name: str, fd: int) -> int:
        """Return an open file, or close it and raise FileRefused: anybody must be able to write to it."""
        facts = os.fstat(fd)
        is_plain = stat.S_ISREG(facts.st_mode)
        if is_plain and facts.st_mode & _FILE_MODE == _FILE_MODE:
            return fd
        os.close(fd)
        why = "is shut to others" if is_plain else _NOT_PLAIN
        raise FileRefused(f"its file {self.path}/{name} {why}", facts.st_uid)

    def _is_at_its_path(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self._fd))
        except OSError:
            return False

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
            return FileRefused(f"its file {path} {_NOT_PLAIN}", uid)
        shut = error.errno in (errno.EACCES, errno.EPERM)
        return FileRefused(f"its file {path} {'is shut to us' if shut else f'cannot be used: {error.strerror}'}", uid)


@lru_cache(maxsize=256)
def file_name(name: str) -> str:
    """Return the name of the file of a GPU."""
    return "".join(letter if letter.isalnum() or letter == "-" else "_" for letter in name)


def _open_folder(path: str) -> int:
    if not os.path.lexists(path):
        _make(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise NotPermitted(f"the claim folder {path} is a symbolic link, which fallow does not follow") from None
        raise NotPermitted(
            f"cannot open the claim folder {path}: {error.strerror}; see what is there, {_ELSE_NAME}"
        ) from None
    try:
        _demand_access(path, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _make(path: str) -> None:
    """Make the folder. It gets its name when it is complete, and never replaces one, since none is without a gate."""
    above = os.path.dirname(path.rstrip("/"))
    draft = f"{path.rstrip('/')}{_DRAFT}{os.urandom(12).hex()}"
    try:
        if os.geteuid() == 0 and os.stat(above).st_uid not in (0, _NOT_MAPPED):
            raise NotPermitted(f"root makes no claim folder in {above}, which is another user's; {_ELSE_NAME[3:]}")
        os.mkdir(draft, 0o700)
        fd = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _fill(fd)
            os.rename(draft, path)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(GATE, dir_fd=fd)
            os.rmdir(draft)
            if not os.path.lexists(path):
                raise
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in OF_THE_DISK:
            raise FallowError(
                f"cannot make the claim folder {path}: {error.strerror}; put that right, {_ELSE_NAME}"
            ) from None
        why = "its file system is mounted read-only" if error.errno == errno.EROFS else error.strerror
        raise NotPermitted(f"cannot make the claim folder {path}: {why}; let root make it, {_ELSE_NAME}") from None


def _fill(fd: int) -> None:
    """Put a gate into a new folder, and open both to all, whatever the umask is."""
    gate = os.open(GATE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=fd)
    os.fchmod(gate, _FILE_MODE)
    os.close(gate)
    os.fchmod(fd, _FOLDER_MODE)


def _demand_access(path: str, fd: int) -> None:
    if os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
        return
    if os.fstatvfs(fd).f_flag & os.ST_RDONLY:
        where = f"the claim folder {path} is on a file system that is mounted read-only"
        raise NotPermitted(f"{where}; remount it, {_ELSE_NAME}")
    way = f"as its owner or root run: chmod 1777 {shell_word(path)}"
    raise NotPermitted(f"the claim folder {path} is shut to this user; {way}")
