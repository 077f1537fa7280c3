"""Where the config is, and reading it."""

import os
import stat
from collections.abc import Mapping

from fallow.core.errors import ConfigWrong, NotPermitted
from fallow.core.mistake import Mistake
from fallow.core.units import printable
from fallow.engine.config.trust import distrusted

_LARGEST_BYTES = 1 << 20


def searched(environ: Mapping[str, str], etc: str = "/etc") -> list[str]:
    """Where a config is looked for when nobody names one, in order."""
    home = environ.get("HOME")
    base = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    return [f"{folder}/fallow/fallow.toml" for folder in (base, etc) if folder]


def find(environ: Mapping[str, str], explicit: str | None = None, etc: str = "/etc") -> str | None:
    """The config to use: the one named, else FALLOW_CONFIG, else the user's, else the machine's, else None.

    One that was named is taken whether it is there or not, and so is one that is there and cannot be looked at:
    whoever loads it is told. Only one that is surely not there is passed over.
    """
    named = explicit or environ.get("FALLOW_CONFIG")
    return named or next((path for path in searched(environ, etc) if _may_be_there(path)), None)


def _may_be_there(path: str) -> bool:
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
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "no plain file"
            raise ConfigWrong(file, [Mistake(f"it is {what}", suggestion="name a file")])
        if os.geteuid() == 0 and (doubts := distrusted(path)):
            raise ConfigWrong(file, doubts)
        with open(path, "rb") as source:
            content = source.read(_LARGEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigWrong(file, [Mistake("there is no such file")]) from None
    except PermissionError as error:
        raise NotPermitted(f"{file}: {error.strerror}") from None
    except (OSError, ValueError) as error:
        raise ConfigWrong(file, [Mistake(f"it cannot be read: {error}")]) from None
    if len(content) > _LARGEST_BYTES:
        raise ConfigWrong(file, [Mistake("it is longer than 1 MiB", suggestion="name a config")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigWrong(file, [Mistake("this is no UTF-8", "", line, suggestion="save it as UTF-8")]) from None
