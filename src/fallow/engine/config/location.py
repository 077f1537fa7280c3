"""Where the config is, and reading it."""

import os
import stat
from codecs import BOM_UTF8
from collections.abc import Mapping

from fallow.core.errors import ConfigWrong, NotPermitted
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.readers.accounts import home
from fallow.readers.file_trust import Followed

MACHINE = "/etc/fallow/fallow.toml"
_LARGEST_BYTES = 1 << 20


def searched(environ: Mapping[str, str], etc: str = "/etc", *, others: bool = False) -> list[str]:
    """Where a config is looked for when nobody names one, in order.

    Root looks in the home that the password database gives, whatever variables sudo has kept; and in the machine's
    own place, which is root's alone: what it starts is not to be started by others. `others`: by those too who only
    want to know what it says.
    """
    root, own = os.geteuid() == 0, home(environ.get("HOME"))
    base = (None if root else environ.get("XDG_CONFIG_HOME")) or (f"{own}/.config" if own else None)
    return [f"{folder}/fallow/fallow.toml" for folder in (base, etc if root or others else None) if folder]


def find(
    environ: Mapping[str, str], explicit: str | None = None, etc: str = "/etc", *, others: bool = False
) -> str | None:
    """The config to use: the one named, else FALLOW_CONFIG, else our own, else the machine's, else None.

    One that was named is taken whether it is there or not, and so is one that is there and cannot be looked at:
    whoever loads it is told. Only one that is surely not there is passed over.
    """
    named = explicit or environ.get("FALLOW_CONFIG")
    return named or next((path for path in searched(environ, etc, others=others) if may_be_there(path)), None)


def may_be_there(path: str) -> bool:
    """Whether there is something, or nobody can tell."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def read(path: str) -> str:
    """The text of a config. Root reads none that others could have written."""
    file = printable(path)
    try:
        source = _opened(path, file)
        with open(source, "rb") as content_of:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise _no_file(file, os.fstat(source).st_mode)
            content = content_of.read(_LARGEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigWrong(file, [Mistake("there is no such file")]) from None
    except PermissionError as error:
        raise NotPermitted(f"{file}: {error.strerror}") from None
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
    """A descriptor to read from: as root, of the very file that was judged."""
    if os.geteuid() != 0:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise _no_file(file, os.stat(path).st_mode)
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with Followed(path) as followed:
        if followed.found is not None and not stat.S_ISREG(followed.found.st_mode):
            raise _no_file(file, followed.found.st_mode)
        if followed.doubts:
            raise ConfigWrong(file, followed.doubts)
        return followed.open(os.O_RDONLY)


def _no_file(file: str, mode: int) -> ConfigWrong:
    what = "a folder" if stat.S_ISDIR(mode) else "not a plain file"
    return ConfigWrong(file, [Mistake(f"it is {what}", suggestion="name a file")])
