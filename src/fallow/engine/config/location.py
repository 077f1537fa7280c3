"""Find the config file, and read it."""

import os
import shlex
import stat
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping

from fallow.core.errors import ConfigWrong, NotPermitted
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.readers.accounts import home
from fallow.readers.file_trust import open_trusted

MACHINE = "/etc/fallow/fallow.toml"
_LARGEST_BYTES = 1 << 20


def searched(environ: Mapping[str, str], etc: str = "/etc", *, others: bool = False) -> list[str]:
    """Return the paths where a config is looked for when none is named, in order.

    Root uses the home directory of the password database, whatever variables sudo has kept. Only root uses the
    config of the machine, because nobody else should start what it starts. `others`: include it for other users
    too, who only want to read it.
    """
    root, own = os.geteuid() == 0, home(environ.get("HOME"))
    base = (None if root else environ.get("XDG_CONFIG_HOME")) or (f"{own}/.config" if own else None)
    return [f"{folder}/fallow/fallow.toml" for folder in (base, etc if root or others else None) if folder]


def find(
    environ: Mapping[str, str], explicit: str | None = None, etc: str = "/etc", *, others: bool = False
) -> str | None:
    """Return the config to use: the one named, else FALLOW_CONFIG, else the user's, else the machine's, else None.

    A named config is returned whether it exists or not, and so is one that exists and cannot be examined: loading
    it then fails with the reason. Only one that surely does not exist is skipped.
    """
    named = explicit or environ.get("FALLOW_CONFIG")
    return named or first_there(searched(environ, etc, others=others))


def first_there(paths: Iterable[str]) -> str | None:
    """Return the first of these files that exists, or whose existence cannot be determined."""
    return next(filter(may_be_there, paths), None)


def may_be_there(path: str) -> bool:
    """Return whether a file exists, or its existence cannot be determined."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read(path: str, option: str = "") -> str:
    """Return the text of a config. Root reads none that others could have written.

    `option`: what names another one, if it is the config of another tool.
    """
    file = printable(path)
    begin = f"name another one: {option}" if option else f"to begin one: fallow check --example > {shlex.quote(file)}"
    try:
        source = _opened(path, file)
        with open(source, "rb") as content_of:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise _no_file(file, os.fstat(source).st_mode)
            content = content_of.read(_LARGEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigWrong(file, [Mistake("there is no such file", suggestion=begin)]) from None
    except PermissionError as error:
        where = f"with {option}" if option else "here or in FALLOW_CONFIG"
        way = f"name a config that you may read, {where}, or set HOME to a folder of yours"
        raise NotPermitted(f"{file}: {error.strerror}", way) from None
    except (OSError, ValueError) as error:
        raise ConfigWrong(file, [Mistake(f"it cannot be read: {error}")]) from None
    if len(content) > _LARGEST_BYTES:
        raise ConfigWrong(file, [Mistake("it is longer than 1 MiB", suggestion="name a config")])
    try:
        return content.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigWrong(file, [Mistake("this is not UTF-8", "", line, suggestion="save it as UTF-8")]) from None


def _opened(path: str, file: str) -> int:
    """Return a descriptor to read from; root takes only a file that nobody else could have written."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise _no_file(file, os.stat(path).st_mode)
    if os.geteuid() != 0:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return open_trusted(path, os.O_RDONLY)
    except NotPermitted as doubt:
        raise ConfigWrong(file, [Mistake(doubt.sentence, suggestion=doubt.way)]) from None


def _no_file(file: str, mode: int) -> ConfigWrong:
    what = "a folder" if stat.S_ISDIR(mode) else "not a plain file"
    return ConfigWrong(file, [Mistake(f"it is {what}", suggestion="name a file")])
