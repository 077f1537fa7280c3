"""Check whether a file can be trusted: only trusted users can have written it, or can replace it.

The path is followed one name at a time, from the root down. Each name is opened in the folder that was checked
before it. Links are followed here and not by the kernel, and each link and its folder are checked too. A folder
that only trusted users can write to cannot change meanwhile, so what was found safe stays safe. In a sticky folder
such as /tmp others cannot touch what is not theirs. The file that is read is the one that was checked. An error on
the way is a doubt.
"""

import os
import shlex
import stat
from types import TracebackType

from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.core.value import value

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_SHOWN = 300


@value
class Trusted:
    """Which users are trusted, why no others, and who should own a file that is not."""

    uids: frozenset[int]
    why: str
    give_to: str = "root"


ROOT_ALONE = Trusted(frozenset({0}), "as root fallow reads only what nobody else can change")


class Followed:
    """What a path leads to, held open by its folder, and every reason not to trust it. It must be closed."""

    def __init__(self, path: str, trusted: Trusted = ROOT_ALONE) -> None:
        self.doubts: list[Mistake] = []
        self.missing = False
        """True if there is nothing at the end of the path; then the doubts are about the folders above it."""
        self.found: os.stat_result | None = None
        self._trusted = trusted
        self._folder: int | None = None
        self._held: int | None = None
        self._name: str | None = None
        self._shown = "/"
        try:
            self._follow(path)
        except (FileNotFoundError, NotADirectoryError):
            self.missing = True
        except (OSError, ValueError) as error:
            self._doubt(f"it cannot be read: {getattr(error, 'strerror', None) or error}")

    @property
    def can_be_made(self) -> bool:
        """Return whether its folder exists, so that it can be made."""
        return self._folder is not None and self._name is not None

    def open(self, flags: int, mode: int = 0o600) -> int:
        """Open the checked file, or make it in the checked folder; raise OSError if it is another file by now.

        Never waits, and never follows a link.
        """
        if not self.can_be_made or self._name is None:
            raise FileNotFoundError(f"there is no {self._shown}")
        if self.found is None:
            flags |= os.O_EXCL  # it did not exist, so what is there now is not trusted
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        fd = os.open(self._name, flags, mode, dir_fd=self._folder)
        now = os.fstat(fd)
        if self.found is not None and (now.st_dev, now.st_ino) != (self.found.st_dev, self.found.st_ino):
            os.close(fd)
            raise OSError(f"{self._shown} was put in another's place meanwhile")
        return fd

    def close(self) -> None:
        """Close the file and its folder."""
        self._protection(None)
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def __enter__(self) -> "Followed":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self, path: str) -> None:
        left = _names(_from_the_top(path))
        links = 0
        self._enter(os.open("/", _LOOK), "/")
        while left:
            name = left.pop()
            shown = os.path.dirname(self._shown) if name == ".." else os.path.join(self._shown, name)
            self._name = None if left else name
            fd = os.open(name, _LOOK, dir_fd=self._folder)
            found = os.fstat(fd)
            if stat.S_ISDIR(found.st_mode) and left:
                self._enter(fd, shown)
                continue
            self._protection(fd)
            self._judge(shown, found)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                left += _names(self._target(fd, links))
            elif left:
                raise NotADirectoryError(shown)
            else:
                self.found, self._shown = found, shown
        if self.found is None and self._folder is not None:
            self.found = os.fstat(self._folder)  # the path, or a link, leads to / itself

    def _target(self, link: int, links: int) -> str:
        if links > _MOST_LINKS:
            raise OSError("too many links on the way")
        target = os.readlink("", dir_fd=link)
        if target.startswith("/"):
            self._enter(os.open("/", _LOOK), "/")
        return target

    def _protection(self, fd: int | None) -> None:
        """Keep the last file open: no other file can get its inode number while it is open."""
        if self._held is not None:
            os.close(self._held)
        self._held = fd

    def _enter(self, folder: int, shown: str) -> None:
        self.close()
        self._folder, self._shown = folder, shown
        self._judge(shown, os.fstat(folder))

    def _judge(self, path: str, found: os.stat_result) -> None:
        """Add a doubt if owner or mode is not safe: an owner can change the mode, and a writer the content."""
        shown, whole = printable(path)[:_LONGEST_SHOWN], printable(path) == path and len(path) <= _LONGEST_SHOWN
        quoted = shlex.quote(path)
        if found.st_uid not in self._trusted.uids:
            remedy = f"chown -h {self._trusted.give_to} {quoted}" if whole else ""
            self._doubt(f"{shown} belongs to another user; {self._trusted.why}", remedy)
        mode = found.st_mode
        if stat.S_ISLNK(mode) or stat.S_ISCHR(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            return
        if mode & _OTHERS_WRITE:
            remedy = f"chmod go-w {quoted}" if whole else ""
            self._doubt(f"others may write to {shown}; {self._trusted.why}", remedy)

    def _doubt(self, sentence: str, suggestion: str = "") -> None:
        mistake = Mistake(sentence, suggestion=suggestion)
        if mistake not in self.doubts:
            self.doubts.append(mistake)


def doubts(path: str, trusted: Trusted = ROOT_ALONE) -> list[Mistake]:
    """Return every reason not to trust it; a missing file is one too."""
    with Followed(path, trusted) as followed:
        return [*followed.doubts, *([Mistake(f"there is no {printable(path)}")] if followed.missing else [])]


def trusted_program(link: str) -> str | None:
    """Return the name of the program that a link of the kernel leads to; None unless that file is trusted here."""
    try:
        program, path = os.stat(link), os.readlink(link)
    except OSError:
        return None
    with Followed(path) as here:
        is_it = here.found is not None and not here.doubts and os.path.samestat(here.found, program)
    return path.rpartition("/")[2] if is_it else None


def _names(path: str) -> list[str]:
    """Return the names on the way, the first at the end of the list."""
    return [name for name in path.split("/") if name not in ("", ".")][::-1]


def _from_the_top(path: str) -> str:
    if path.startswith("/"):
        return path
    try:
        here = os.getcwd()
    except OSError as error:
        # The working folder may be gone while the file exists.
        raise OSError(f"the working folder cannot be found: {error.strerror}") from None
    if not here.startswith("/"):
        raise OSError("the working folder cannot be reached from /")
    return f"{here}/{path}"
