"""The folder of one user's journal, history and stacks. Only that user can change it, or it is not used.

A user who could write to it, or replace it, could read what it says of people, or make fallow write elsewhere. So
each step of the path is opened by itself, without following links, and must belong to root or to this user. The
folder itself must belong to this user, and nobody else may write to it. What cannot be checked is refused.
"""

import errno
import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from fallow.core.errors import FallowError, NotPermitted
from fallow.core.shell_word import shell_word
from fallow.core.units import printable

OWN_FOLDER = "set FALLOW_STATE_DIR to a folder of yours"
_OF_ROOT = "/var/lib/fallow"
_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def path_of(environ: Mapping[str, str]) -> str:
    """Return FALLOW_STATE_DIR, else as root /var/lib/fallow, else a folder in the home of the user."""
    named = environ.get("FALLOW_STATE_DIR")
    if named:
        return os.path.abspath(named)
    if os.geteuid() == 0:
        return _OF_ROOT  # whatever HOME is: sudo -E keeps that of its caller
    base = environ.get("XDG_STATE_HOME", "")
    return f"{base}/fallow" if base.startswith("/") else f"{_home(environ)}/.local/state/fallow"


def prepared(path: str, *, make: bool = True) -> str:
    """Make the folder if it is missing; return its real path. Raise FallowError if it cannot be ours alone."""
    home = _passwd_home()
    begins = home if home is not None and home != "/" and f"{path}/".startswith(f"{home}/") else "/"
    try:
        fd, real = _walk(path, begins, make=make)
    except OSError as error:
        why = error.strerror or os.strerror(error.errno or 0)
        raise FallowError(f"{path} cannot be used: {why}", OWN_FOLDER) from None
    try:
        _demand_private(fd, real)
    finally:
        os.close(fd)
    return real


def why_unusable(path: str) -> str | None:
    """Return why nothing can be kept there, though nothing is there yet; None if it can be made, or is there."""
    at = path
    while not os.path.lexists(at) and at != "/":
        at = os.path.dirname(at)
    if os.access(at, os.W_OK | os.X_OK):
        return None
    return f"{at} is not yours to write" if at == path else f"{at} is not yours to write, and {path} is not there"


def private_file(folder: str, name: str) -> str:
    """Return the path of a file there that only we can read; made if it is missing, and never opened.

    Opening and closing a database beside SQLite would drop the locks that SQLite has on it.
    """
    path = os.path.join(folder, name)
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            os.mknod(name, stat.S_IFREG | 0o600, dir_fd=fd)
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise FallowError(f"{path} is no file")
        if found.st_uid != os.geteuid():
            raise NotPermitted(f"{path} belongs to {_name_of(found.st_uid)}")
        if found.st_mode & 0o077:
            # By its name, in a folder where nobody else can put another file.
            os.chmod(name, 0o600, dir_fd=fd)
    finally:
        os.close(fd)
    return path


def write_new(path: str, name: str, text: str) -> str:
    """Write a new file there that only we can read; return its path. Never waits, and never uses an existing file.

    The folder is checked each time. If the name is taken, a number is added.
    """
    folder = prepared(path)
    stem, dot, kind = name.rpartition(".")
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for number in range(1, 1000):
            tried = name if number == 1 else f"{stem}-{number}{dot}{kind}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            try:
                made = os.open(tried, flags, 0o600, dir_fd=fd)
            except FileExistsError:
                continue
            with open(made, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return os.path.join(folder, tried)
        raise FallowError(f"{folder} has a thousand files named {name}")
    finally:
        os.close(fd)


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    if home.startswith("/"):
        return home.rstrip("/")
    found = _passwd_home()
    if found is None:
        raise FallowError(
            f"there is nowhere to keep a journal: HOME is not set, and user {os.geteuid()} has no home", OWN_FOLDER
        )
    return found


def _passwd_home() -> str | None:
    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return None
    return os.path.abspath(home) if home.startswith("/") else None


def _walk(path: str, begins: str, *, make: bool) -> tuple[int, str]:
    """Open the folder, made if it is missing; return it and its real path. Each step of the path is checked."""
    fd, real = os.open(begins, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), os.path.realpath(begins)
    todo = deque(path[len(begins) :].split("/"))
    links = 0
    try:
        _demand_trusted(fd, real)
        while todo:
            name = todo.popleft()
            if name in ("", "."):
                continue
            below = _opened(fd, name, make=make)
            try:
                link = _link_at(below, fd, name, f"{real.rstrip('/')}/{name}")
                if link is None:
                    fd, below = below, fd
                    real = os.path.dirname(real) if name == ".." else f"{real.rstrip('/')}/{name}"
                    _demand_trusted(fd, real)
                    continue
            finally:
                os.close(below)
            links += 1
            _demand_few(links)
            todo.extendleft(reversed(link.split("/")))
            if link.startswith("/"):
                os.close(fd)
                fd, real = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), "/"
    except BaseException:
        os.close(fd)
        raise
    return fd, real


def _demand_few(links: int) -> None:
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _opened(fd: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _STEP, dir_fd=fd)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=fd)
        return os.open(name, _STEP, dir_fd=fd)


def _link_at(below: int, fd: int, name: str, path: str) -> str | None:
    """Return where a link of root or of this user leads; None if it is not a link."""
    found = os.fstat(below)
    if not stat.S_ISLNK(found.st_mode):
        return None
    if found.st_uid not in (0, os.geteuid()):
        raise NotPermitted(f"{path} is a link of {_name_of(found.st_uid)}'s; name another place in FALLOW_STATE_DIR")
    return os.readlink(name, dir_fd=fd)


def _demand_trusted(fd: int, path: str) -> None:
    """Raise NotPermitted if a user other than root and this one can replace what is in the folder."""
    found = os.fstat(fd)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if found.st_uid not in (0, os.geteuid()):
        raise NotPermitted(
            f"{path} belongs to {_name_of(found.st_uid)}, who could read or change what is kept in it; "
            "name another place in FALLOW_STATE_DIR"
        )
    if found.st_mode & stat.S_ISVTX:
        return  # others may add to it, but cannot touch what is not theirs
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_our_own_group(found.st_gid)):
        raise NotPermitted(
            f"others may write to {path}, and change what is kept in it; try: chmod go-w {shell_word(path)}"
        )


def _demand_private(fd: int, path: str) -> None:
    found = os.fstat(fd)
    if found.st_uid != os.geteuid():
        raise NotPermitted(
            f"{path} belongs to {_name_of(found.st_uid)}, not to us; name another place in FALLOW_STATE_DIR"
        )
    if found.st_mode & _OTHERS_WRITE:
        raise NotPermitted(
            f"others may write to {path}, and change what is kept in it; try: chmod go-w {shell_word(path)}"
        )


def _is_our_own_group(gid: int) -> bool:
    """Return whether a group is this user's own: many systems give each user one, and let it write."""
    try:
        we, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == we.pw_gid and group.gr_name == we.pw_name and set(group.gr_mem) <= {we.pw_name}


def _name_of(uid: int) -> str:
    try:
        return printable(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return f"user {uid}"
