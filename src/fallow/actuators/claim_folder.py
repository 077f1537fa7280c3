"""The folder of claims, which every user of the machine shares, none of them root.

One file for each GPU, open to all, in a sticky folder. `fs.protected_regular` forbids O_CREAT on a file of
somebody else there, so a file is opened without it first and created only where there is none.
"""

import errno
import os
import stat
import threading
from collections.abc import Mapping
from functools import lru_cache

from fallow.core.errors import NotPermitted, WrongUsage

_SHARED = "/run/lock"
_OURS = "/run/lock/fallow"
_ELSEWHERE = "/tmp/fallow-claims"  # noqa: S108  shared on purpose; opened without following links
_OPEN_TO_ALL = 0o1777


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

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = _open_folder(path)

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
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._fd))
        except FileNotFoundError:
            same = False
        if not same:
            fresh = _open_folder(self.path)
            os.close(self._fd)
            self._fd = fresh

    def open(self, name: str) -> int:
        """A file of the folder for reading and writing, made if it is not there."""
        safe = _file_name(name)
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            fd = self._open_or_create(safe, flags)
        except OSError as error:
            raise NotPermitted(self._complaint(safe, error)) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise NotPermitted(f"{self.path}/{safe} is not a plain file; an administrator should remove it")
        return fd

    def peek(self, name: str) -> int | None:
        """A file of the folder for reading only; None where nobody made one yet."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            return os.open(_file_name(name), flags, dir_fd=self._fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NotPermitted(self._complaint(name, error)) from None

    def still_there(self, name: str, fd: int) -> bool:
        """Whether the open file is still the one that others find under its name."""
        try:
            found = os.stat(_file_name(name), dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(found, os.fstat(fd))

    def names(self) -> list[str]:
        """What is in the folder."""
        return os.listdir(self._fd)

    def read(self, name: str) -> tuple[bytes, int]:
        """The content of a file, and the user whose it is; OSError if it cannot be read."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._fd)
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):  # a folder, a pipe: whoever made it wants us to stumble
                raise OSError(errno.EINVAL, "not a plain file")
            return os.read(fd, 65536), facts.st_uid
        finally:
            os.close(fd)

    def owner(self, name: str) -> int:
        """The user whose a file is."""
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_uid

    def add(self, name: str, content: bytes, mode: int = 0o644) -> bool:
        """A new file, with its content and rights from its first moment on; False if there is one of that name."""
        draft = f".draft-{os.getpid()}-{threading.get_native_id()}-{name}"
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._fd)
        try:
            os.fchmod(fd, mode)  # whatever the umask is
            os.write(fd, content)
            os.link(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except FileExistsError:
            return False
        finally:
            os.close(fd)
            os.unlink(draft, dir_fd=self._fd)
        return True

    def remove(self, name: str) -> None:
        """Take a file away; the folder is sticky, so only its owner or root can."""
        os.unlink(name, dir_fd=self._fd)

    def _open_or_create(self, name: str, flags: int) -> int:
        while True:
            try:
                return os.open(name, flags, dir_fd=self._fd)
            except FileNotFoundError:
                self.add(name, b"", 0o666)  # if somebody was faster, we open theirs

    def _complaint(self, name: str, error: OSError) -> str:
        if error.errno == errno.ELOOP:
            return f"{self.path}/{name} is a symbolic link, which fallow does not follow"
        blame = "; its owner may have shut others out" if error.errno in (errno.EACCES, errno.EPERM) else ""
        return f"cannot use {self.path}/{name}: {error.strerror}{blame}"


@lru_cache(maxsize=256)
def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter == "-" else "_" for letter in name)


def _open_folder(path: str) -> int:
    before = os.umask(0)  # the folder is everybody's, from its first moment on
    try:
        os.mkdir(path, _OPEN_TO_ALL)
    except FileExistsError:
        pass
    except OSError as error:
        raise NotPermitted(f"cannot make the claim folder {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise NotPermitted(f"the claim folder {path} is a symbolic link, which fallow does not follow") from None
        raise NotPermitted(f"cannot open the claim folder {path}: {error.strerror}") from None
    if not os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
        read_only = os.fstatvfs(fd).f_flag & os.ST_RDONLY
        os.close(fd)
        if read_only:
            raise NotPermitted(f"the claim folder {path} is on a file system that is mounted read-only")
        raise NotPermitted(f"the claim folder {path} is shut to this user; its owner should run: chmod 1777 {path}")
    return fd
