"""The INI file of `gpu_mon`: every key of it, read into a value, and the same said in a fallow.toml."""

import configparser
import json
import os
import shlex
from collections.abc import Callable, Iterable
from typing import TypeVar

from fallow.core.errors import WrongUsage
from fallow.core.units import is_number
from fallow.core.value import value

PLACE = "~/.config/gpu_mon.conf"
_KEYS = {
    "defaults": {"interval_seconds"},
    "gpu": {"gpus", "ignore_programs"},
    "process": {"dir", "cmd", "gpus", "log"},
    "tty": {"enabled", "whitelist", "idle_seconds"},
}
_INTERVAL_S, _USER_IDLE_S = 10, 300
T = TypeVar("T")


@value
class Watched:
    """Cards (None: all), and the programs that may be on them without counting."""

    gpus: tuple[int, ...] | None
    ignore: frozenset[str]


@value
class Filler:
    """A program for idle cards (None: one over all of them)."""

    name: str
    command: tuple[str, ...]
    gpus: tuple[int, ...] | None
    folder: str | None
    log: str | None


@value
class GpuMonFile:
    """All that the file says; `user_idle_s` is None where people at terminals do not matter."""

    interval_s: int
    watched: tuple[Watched, ...]
    fillers: tuple[Filler, ...]
    user_idle_s: int | None
    ignore_users: tuple[str, ...]

    def ignored_by(self, filler: Filler) -> tuple[str, ...]:
        """The programs that do not count on any of the filler's cards."""
        everywhere = self._ignored_on(None)
        if filler.gpus is None:
            return tuple(sorted(everywhere))
        return tuple(sorted(frozenset.intersection(*(everywhere | self._ignored_on(gpu) for gpu in filler.gpus))))

    def _ignored_on(self, gpu: int | None) -> frozenset[str]:
        return frozenset().union(
            *(part.ignore for part in self.watched if (gpu is None and part.gpus is None) or gpu in (part.gpus or ()))
        )


def read(path: str) -> GpuMonFile:
    """The file; every mistake in it at once."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise WrongUsage(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    return _Reading(parser).file(path)


class _Reading:
    """Takes the sections apart, and collects what is wrong with them."""

    def __init__(self, parser: configparser.ConfigParser) -> None:
        self._parser = parser
        self._mistakes: list[str] = []

    def file(self, path: str) -> GpuMonFile:
        kinds: dict[str, list[str]] = {kind: [] for kind in _KEYS}
        for section in self._parser.sections():
            kind = section if section in ("defaults", "tty") else section.partition("-")[0]
            if kind not in _KEYS:
                self._mistakes.append(f"there is no section [{section}]")
                continue
            kinds[kind].append(section)
            unknown = set(self._parser[section]) - _KEYS[kind]
            self._mistakes.extend(f"there is no key {key!r} in [{section}]" for key in sorted(unknown))
        if not kinds["process"]:
            self._mistakes.append("there is no [process-…], so nothing would ever run")
        heeded = self._get("tty", "enabled", _truth, False)
        made = GpuMonFile(
            interval_s=self._get("defaults", "interval_seconds", _seconds, _INTERVAL_S),
            watched=tuple(self._watched(section) for section in kinds["gpu"]),
            fillers=tuple(self._filler(section) for section in kinds["process"]),
            user_idle_s=self._get("tty", "idle_seconds", _seconds, _USER_IDLE_S) if heeded else None,
            ignore_users=self._get("tty", "whitelist", _names, ()),
        )
        if self._mistakes:
            raise WrongUsage(f"{path}: {'; '.join(self._mistakes)}")
        return made

    def _watched(self, section: str) -> Watched:
        names: tuple[str, ...] = self._get(section, "ignore_programs", _names, ())
        return Watched(self._get(section, "gpus", _gpus, None), frozenset(names))

    def _filler(self, section: str) -> Filler:
        command: tuple[str, ...] = self._get(section, "cmd", _words, ())
        if not command:
            self._mistakes.append(f"[{section}] has no cmd")
        folder, log = (self._get(section, key, _place, None) for key in ("dir", "log"))
        return Filler(section, command, self._get(section, "gpus", _gpus, None), folder, log)

    def _get(self, section: str, key: str, convert: Callable[[str], T], default: T) -> T:
        text = self._parser.get(section, key, fallback="").strip()
        try:
            return convert(text) if text else default
        except ValueError as error:
            self._mistakes.append(f"{key}={text} in [{section}]: {error}")
            return default


def as_toml(file: GpuMonFile) -> str:
    """The fallow.toml that says the same."""
    users = "ignore" if file.user_idle_s is None else "yield"
    lines = ["[terminals]", f"users = {_text(users)}"]
    if file.user_idle_s is not None:
        lines += [f'user_idle = "{file.user_idle_s}s"', f"ignore_user = {_texts(file.ignore_users)}"]
    for filler in file.fillers:
        gpus = "all" if filler.gpus is None else ",".join(map(str, filler.gpus))
        several = filler.gpus is None or len(filler.gpus) > 1
        lines += ["", "[[filler]]", f"name = {_text(filler.name)}", f"command = {_texts(filler.command)}"]
        lines += [f"gpus = {_text(gpus)}", f"together = {'true' if several else 'false'}"]
        lines += [f'idle_for = "{file.interval_s}s"', f"ignore = {_texts(file.ignored_by(filler))}"]
        lines += [f"cwd = {_text(filler.folder)}"] if filler.folder else []
        lines += [f"log = {_text(filler.log)}"] if filler.log else []
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _gpus(text: str) -> tuple[int, ...] | None:
    if text.upper() == "ALL":
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(map(is_number, words)):
        raise ValueError("write indices, as 0,1, or ALL")
    return tuple(sorted({int(word) for word in words}))


def _names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


def _place(text: str) -> str:
    return os.path.abspath(os.path.expanduser(text))


def _seconds(text: str) -> int:
    if not is_number(text) or int(text) < 1:
        raise ValueError("write whole seconds, at least 1")
    return int(text)


def _truth(text: str) -> bool:
    known = configparser.ConfigParser.BOOLEAN_STATES
    if text.lower() not in known:
        raise ValueError("write True or False")
    return known[text.lower()]
