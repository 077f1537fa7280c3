"""Decide as which user the daemon runs a command, and whether others could change what is run.

A config of root names the user for each command. Only root and that user may be able to change what is run: the
program, the scripts that it reads, the folder that it runs in.
"""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from stat import S_ISREG

from fallow.core.account import Account
from fallow.core.errors import CannotRun, NotPermitted
from fallow.core.mistake import Mistake
from fallow.core.value import value
from fallow.readers.accounts import account
from fallow.readers.file_trust import Followed, Trusted, doubts

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_READ_SCRIPTS = ("python", "perl", "ruby", "node", "julia", "Rscript", "php", "lua", "pypy")
_SCRIPTS = (".py", ".pyz", ".sh", ".bash", ".pl", ".rb", ".js", ".jl", ".R", ".r", ".lua", ".php", ".jar", ".ipynb")
_LONGEST_FIRST_LINE = 256
_USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@value
class RunAs:
    """The user, environment and trust with which root runs a command of the config."""

    account: Account | None
    """The user to become; None if we are that user already."""
    environ: dict[str, str]
    trusted: Trusted


def run_as(user: str | int | None, environ: Mapping[str, str]) -> RunAs | None:
    """Return how to run as a user, by name or number; None if none is named or we are not root: as our own."""
    if user is None or os.geteuid() != 0:
        return None
    found = account(user)
    if found is None:
        raise NotPermitted(f"there is no user {user!r} to run it as")
    trusted = trusted_by(found)
    path = safe_path(environ.get("PATH", _USUAL), trusted)
    if found.uid == 0:
        return RunAs(None, {**environ, "PATH": path}, trusted)
    return RunAs(found, found.environ(environ, path), trusted)


def trusted_by(user: Account) -> Trusted:
    """Return whose files this user may run."""
    who = "root" if user.uid == 0 else f"root and {user.name}"
    return Trusted(frozenset({0, user.uid}), f"what runs as {user.name} may be changed by {who} alone", user.name)


def safe_path(path: str, trusted: Trusted) -> str:
    """Return the folders of a PATH in which no other user can put a program; the usual ones if none is left."""
    kept = [folder for folder in path.split(":") if folder.startswith("/") and not doubts(folder, trusted)]
    return ":".join(kept) or _USUAL


def refuse_doubtful(command: Sequence[str], cwd: str | None, environ: Mapping[str, str], trusted: Trusted) -> None:
    """Raise CannotRun if another user can change what would be run."""
    found = [*doubts_of(command, cwd, environ, trusted), *([] if cwd is None else doubts(cwd, trusted))]
    if found:
        raise CannotRun(f"{found[0].sentence} ({found[0].suggestion})" if found[0].suggestion else found[0].sentence)


def doubts_of(command: Sequence[str], cwd: str | None, environ: Mapping[str, str], trusted: Trusted) -> list[Mistake]:
    """Return every reason not to run it: another user can change the program, or a script that it reads."""
    found: list[Mistake] = []
    for file in dict.fromkeys(files_of(command, cwd, environ.get("PATH", _USUAL))):
        found += [doubt for doubt in doubts(file, trusted) if doubt not in found]
    return found


def files_of(command: Sequence[str], cwd: str | None, path: str) -> Iterator[str]:
    """Yield the files that are run: the program, its interpreter, and every argument that is a script or program."""
    program = _found(command[0], cwd, path)
    if program is None:
        return
    yield from _with_interpreter(program, path)
    name = os.path.basename(command[0])
    first = next((word for word in command[1:] if not word.startswith("-")), None)
    for before, word in pairwise(command):
        if name in _SHELLS and before.startswith("-") and before.endswith("c"):
            yield from files_of_line(word, cwd, path)
            continue
        file = os.path.join(cwd or "/", word)
        is_script = word is first and (name in _SHELLS or name.startswith(_READ_SCRIPTS))
        if os.path.isfile(file) and (is_script or file.endswith(_SCRIPTS) or os.access(file, os.X_OK)):
            yield from _with_interpreter(file, path)


def files_of_line(line: str, cwd: str | None, path: str) -> Iterator[str]:
    """Yield the files that a shell command runs, as far as its words can be found."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        for word in list(words):
            file = _found(word, cwd, path)
            if file is None and os.path.isfile(os.path.join(cwd or "/", word)) and word.endswith(_SCRIPTS):
                file = os.path.join(cwd or "/", word)
            if file is not None:
                yield from _with_interpreter(file, path)
    except ValueError:  # a quote that is not closed: the shell will report it
        return


def _found(word: str, cwd: str | None, path: str) -> str | None:
    return shutil.which(os.path.join(cwd or "/", word) if os.sep in word else word, path=path)


def _with_interpreter(file: str, path: str) -> Iterator[str]:
    yield file
    head = _first_line(file)
    words = os.fsdecode(head[2:]).split() if head.startswith(b"#!") else []
    yield from words[:1]
    if words and os.path.basename(words[0]) == "env":
        plain = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
        interpreter = None if plain is None else shutil.which(plain, path=path)
        if interpreter is not None:
            yield interpreter


def _first_line(file: str) -> bytes:
    """Return the beginning of its first line; nothing if it is no plain file, or cannot be read at once.

    Its user could keep whoever opens it waiting, with a pipe in its place or a lease on it, or put a link to a device
    there, which may act when it is opened. So what is there is held first, and opened only if it is a plain file.
    """
    try:
        held = os.open(file, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        if not S_ISREG(os.fstat(held).st_mode):
            return b""
        fd = os.open(f"/dev/fd/{held}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return os.read(fd, _LONGEST_FIRST_LINE).partition(b"\n")[0]
        finally:
            os.close(fd)
    except OSError:
        return b""
    finally:
        os.close(held)


def doubts_of_log(log: str, trusted: Trusted) -> list[Mistake]:
    """Return every reason not to write to the log; it need not exist yet."""
    with Followed(log, trusted) as followed:
        return followed.doubts
