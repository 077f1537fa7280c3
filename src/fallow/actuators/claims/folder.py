"""The claim folder, which all users of the machine share.

It is sticky and has one file for each GPU, open to all. `fs.protected_regular` forbids O_CREAT on another user's
file there, so a file is opened without it first and created only if there is none.

    GPU-…         0666  claims on one GPU: see claims.py
    wait-…        0644  one launch that waits: see waitline.py
    protection-N  0644  one protection: see protections.py
    .draft-…      0600  a file that is written; it gets its name when it is complete

A flock on the folder itself is the gate: a launch or pick has it for the moment in which it chooses.

The owner of the folder or of a file can remove it. So the folder should be root's, and in a folder of another user
root creates, writes and removes nothing. If something else is in the place of one file, only its GPU is refused.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from fallow.actuators.files import ofd_locks
from fallow.core.errors import NotPermitted, WrongUsage
from fallow.core.ports import Clock
from fallow.core.shell_word import shell_word

_SHARED = "/run/lock"
_OURS = "/run/lock/fallow"
_ELSEWHERE = "/tmp/fallow-claims"  # noqa: S108  shared on purpose; opened without following links
_FOLDER_MODE, _FILE_MODE = 0o1777, 0o666
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ELSE_NAME = "or name another folder in FALLOW_CLAIM_DIR, the same for every user"
_ROOT = (0, 65534)  # 65534 is how root of the machine shows in a container with user IDs of its own
_GATE_WITHIN_S = 2.0
_GATE_AGAIN_S = 0.001


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
        self.fd = _open_folder(path)

    @property
    def owner_uid(self) -> int:
        """Return the owner of the folder, who can remove what is in it."""
        return os.fstat(self.fd).st_uid

    def close(self) -> None:
        """Close the folder; locks on its files stay."""
        os.close(self.fd)

    def refresh(self) -> None:
        """Open the folder again if it was removed and made again; its descriptor is another one then."""
        if not _is_at(self.path, self.fd):
            fresh = _open_folder(self.path)
            os.close(self.fd)
            self.fd = fresh

    def open(self, name: str) -> int:
        """Open a GPU's file for reading and writing, made if missing; raise FileRefused if it is unfit."""
        self.demand_change()
        while (fd := self._opened(file_name(name), _WRITE)) is None:
            try:
                self.add(file_name(name), b"", _FILE_MODE)  # if another process was faster, its file is opened
            except OSError as error:
                raise self._refused(file_name(name), f"cannot be made: {error.strerror}") from None
        return fd

    def peek(self, name: str) -> int | None:
        """Open a GPU's file for reading only, which wakes nobody; None if there is none; raise FileRefused."""
        return self._opened(file_name(name), _READ)

    def has(self, name: str, fd: int) -> bool:
        """Return whether an open file is still the one that others find under its name."""
        return _is_at(f"{self.path}/{file_name(name)}", fd)

    def names(self) -> list[str]:
        """Return the names of all files in the folder."""
        return os.listdir(self.fd)

    def add(self, name: str, content: bytes, mode: int = 0o644) -> bool:
        """Add a file that has its content and mode from the first moment; False if there is one of that name."""
        self.demand_change()
        draft = f".draft-{os.urandom(12).hex()}"  # a random name that nobody can have taken
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.fd)
        try:
            os.fchmod(fd, mode)  # whatever the umask is
            os.write(fd, content)
            os.link(draft, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileExistsError:
            return False
        finally:
            os.close(fd)
            with suppress(FileNotFoundError):  # the owner of the folder may have removed it
                os.unlink(draft, dir_fd=self.fd)
        return True

    def remove(self, name: str) -> None:
        """Remove a file; the folder is sticky, so only its owner or root can."""
        self.demand_change()
        os.unlink(name, dir_fd=self.fd)

    def demand_change(self) -> None:
        """Raise NotPermitted if we are root and the folder is another user's: root changes nothing there."""
        uid = self.owner_uid
        if os.geteuid() == 0 and uid not in _ROOT:
            whose = f"the claim folder {self.path} is of user ID {uid}, and root changes nothing in it"
            raise NotPermitted(f"{whose}; {to_give_it_to_root(self.path)}, {_ELSE_NAME}")

    @contextmanager
    def gate(self, clock: Clock) -> Iterator[None]:
        """Let one process in at a time, briefly; after two seconds go on without, so that none can block all."""
        fd = os.open(".", _OPEN_FOLDER, dir_fd=self.fd)
        try:
            until_s = clock.monotonic_s() + _GATE_WITHIN_S
            while not ofd_locks.take_whole(fd) and clock.monotonic_s() < until_s:
                clock.sleep(_GATE_AGAIN_S)
            yield
        finally:
            os.close(fd)

    def _opened(self, name: str, flags: int) -> int | None:
        """Open a file; refuse one that not everybody may write to: writing there could do what its owner forbade."""
        try:
            fd = os.open(name, flags, dir_fd=self.fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refused(name, f"cannot be opened: {error.strerror}") from None
        facts = os.fstat(fd)
        if stat.S_ISREG(facts.st_mode) and facts.st_mode & _FILE_MODE == _FILE_MODE:
            return fd
        os.close(fd)
        raise self._refused(name, "is not a plain file that every user may write to")

    def _refused(self, name: str, why: str) -> FileRefused:
        try:
            uid = os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_uid
        except OSError:
            uid = None
        return FileRefused(f"its file {self.path}/{name} {why}", uid)


def file_name(name: str) -> str:
    """Return the name of the file of a GPU."""
    return "".join(letter if letter.isalnum() or letter == "-" else "_" for letter in name)


def _is_at(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:
        return False


def _open_folder(path: str) -> int:
    if not os.path.lexists(path):
        _make(path)
    try:
        fd = os.open(path, _OPEN_FOLDER)
    except OSError as error:
        why = f"{error.strerror}; see what is there"
        raise NotPermitted(f"cannot open the claim folder {path}: {why}, {_ELSE_NAME}") from None
    if os.access(".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
        return fd
    os.close(fd)
    way = f"mount it for writing, or as its owner or root run: chmod 1777 {shell_word(path)}"
    raise NotPermitted(f"the claim folder {path} is shut to this user; {way}")


def _make(path: str) -> None:
    """Make the folder, open to all from its first moment; if another process was faster, its folder stays."""
    above = os.path.dirname(path.rstrip("/"))
    before = os.umask(0)
    try:
        if os.geteuid() == 0 and os.stat(above).st_uid not in _ROOT:
            raise NotPermitted(f"root makes no claim folder in {above}, which is another user's; {_ELSE_NAME[3:]}")
        with suppress(FileExistsError):
            os.mkdir(path, _FOLDER_MODE)
    except OSError as error:
        why = f"{error.strerror}; let root make it"
        raise NotPermitted(f"cannot make the claim folder {path}: {why}, {_ELSE_NAME}") from None
    finally:
        os.umask(before)
