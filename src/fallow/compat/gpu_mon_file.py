"""Reads the INI file of `gpu_mon`, with all its keys, and finds every mistake in it."""

import configparser
import os
import re
import shlex
from collections.abc import Callable
from typing import TypeVar

from fallow.core.errors import ConfigWrong
from fallow.core.mistake import Mistake
from fallow.core.units import is_number, printable
from fallow.core.value import value
from fallow.engine.config import location
from fallow.readers.accounts import from_home

PLACE = "~/.config/gpu_mon.conf"
_KEYS = {
    "defaults": {"interval_seconds"},
    "gpu": {"gpus", "ignore_programs"},
    "process": {"dir", "cmd", "gpus", "log"},
    "tty": {"enabled", "whitelist", "idle_seconds"},
}
_INTERVAL_S, _USER_IDLE_S = 10, 300
_LONGEST_NAME = 40
T = TypeVar("T")


@value
class Watched:
    """GPUs (None: all), and the programs on them that are ignored."""

    gpus: tuple[int, ...] | None
    ignore: frozenset[str]


@value
class Filler:
    """A program for idle GPUs (None: one program on all of them)."""

    name: str
    command: tuple[str, ...]
    gpus: tuple[int, ...] | None
    folder: str | None
    log: str | None

    @property
    def together(self) -> bool:
        """Return whether it needs several GPUs at once."""
        return self.gpus is None or len(self.gpus) > 1

    def shares_gpus_with(self, other: "Filler") -> bool:
        """Return whether both may want the same GPU."""
        return self.gpus is None or other.gpus is None or not set(self.gpus).isdisjoint(other.gpus)


@value
class GpuMonFile:
    """The content of the file; `user_idle_s` is None if people at terminals are ignored."""

    interval_s: int
    watched: tuple[Watched, ...]
    fillers: tuple[Filler, ...]
    user_idle_s: int | None
    ignore_users: tuple[str, ...]

    def ignored_by(self, filler: Filler) -> tuple[str, ...]:
        """Return the programs that are ignored on all of the filler's GPUs."""
        everywhere = self._ignored_on(None)
        if filler.gpus is None:
            return tuple(sorted(everywhere))
        return tuple(sorted(frozenset.intersection(*(everywhere | self._ignored_on(gpu) for gpu in filler.gpus))))

    def _ignored_on(self, gpu: int | None) -> frozenset[str]:
        return frozenset().union(
            *(part.ignore for part in self.watched if (gpu is None and part.gpus is None) or gpu in (part.gpus or ()))
        )


def read(path: str) -> GpuMonFile:
    """Read the file; raise ConfigWrong with every mistake in it. Root reads none that others can write."""
    path = from_home(path)
    text = location.read(path, "--config FILE")
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ConfigWrong(printable(path), _no_ini(error)) from None
    reading = _Reading(parser, _lines(text))
    file = reading.file()
    if reading.mistakes:
        raise ConfigWrong(printable(path), sorted(reading.mistakes, key=lambda mistake: mistake.line or 0))
    return file


class _Reading:
    """Parses the sections, and collects the mistakes in them."""

    def __init__(self, parser: configparser.ConfigParser, lines: dict[tuple[str, str], int]) -> None:
        self._parser = parser
        self._lines = lines
        self.mistakes: list[Mistake] = []

    def file(self) -> GpuMonFile:
        kinds: dict[str, list[str]] = {kind: [] for kind in _KEYS}
        for section in self._parser.sections():
            kind = section if section in ("defaults", "tty") else section.partition("-")[0]
            if kind not in _KEYS:
                self._wrong(section, "", "there is no such section", "defaults, gpu-…, process-… and tty are known")
                continue
            kinds[kind].append(section)
            for key in self._parser[section].keys() - _KEYS[kind]:
                self._wrong(section, key, "there is no such key", f"{', '.join(sorted(_KEYS[kind]))} are known")
        if not kinds["process"]:
            self.mistakes.append(Mistake("there is no [process-…], so nothing would ever run"))
        minds_users = self._get("tty", "enabled", _truth, False)
        return GpuMonFile(
            interval_s=self._get("defaults", "interval_seconds", _seconds, _INTERVAL_S),
            watched=tuple(self._watched(section) for section in kinds["gpu"]),
            fillers=tuple(self._filler(section) for section in kinds["process"]),
            user_idle_s=self._get("tty", "idle_seconds", _seconds, _USER_IDLE_S) if minds_users else None,
            ignore_users=self._get("tty", "whitelist", _names, ()),
        )

    def _watched(self, section: str) -> Watched:
        names: tuple[str, ...] = self._get(section, "ignore_programs", _names, ())
        return Watched(self._get(section, "gpus", _gpus, None), frozenset(names))

    def _filler(self, section: str) -> Filler:
        command: tuple[str, ...] = self._get(section, "cmd", _words, ())
        if not self._parser.get(section, "cmd", fallback="").strip():
            self._wrong(section, "cmd", "there is none to run")
        folder, log = (self._get(section, key, _place, None) for key in ("dir", "log"))
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", section)[:_LONGEST_NAME]
        return Filler(name, command, self._get(section, "gpus", _gpus, None), folder, log)

    def _get(self, section: str, key: str, convert: Callable[[str], T], default: T) -> T:
        text = self._parser.get(section, key, fallback="").strip()
        try:
            return convert(text) if text else default
        except ValueError as error:
            self._wrong(section, key, f"{text!r}: {error}")
            return default

    def _wrong(self, section: str, key: str, sentence: str, suggestion: str = "") -> None:
        line = self._lines.get((section, key), self._lines.get((section, "")))
        self.mistakes.append(Mistake(sentence, f"[{section}] {key}".strip(), line, suggestion=suggestion))


def _no_ini(error: configparser.Error) -> list[Mistake]:
    match error:
        case configparser.MissingSectionHeaderError():
            return [Mistake("no [section] is above this", line=error.lineno)]
        case configparser.ParsingError():
            return [Mistake("this is neither [section] nor key=value", line=number) for number, _ in error.errors]
        case configparser.DuplicateSectionError():
            return [Mistake(f"[{error.section}] is there twice", line=error.lineno)]
        case configparser.DuplicateOptionError():
            return [Mistake("it is there twice", f"[{error.section}] {error.option}", line=error.lineno)]
        case _:
            return [Mistake(f"this is no INI file: {error}")]


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Return the line number of each section and key."""
    found: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        head = configparser.ConfigParser.SECTCRE.match(line)
        if head:
            section = head["header"]
        key = "" if head else re.split("[=:]", line, maxsplit=1)[0].strip().lower()
        found.setdefault((section, key), number)
    return found


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
    return os.path.abspath(from_home(text))


def _seconds(text: str) -> int:
    if not is_number(text) or int(text) < 1:
        raise ValueError("write whole seconds, at least 1")
    return int(text)


def _truth(text: str) -> bool:
    known = configparser.ConfigParser.BOOLEAN_STATES
    if text.lower() not in known:
        raise ValueError("write True or False")
    return known[text.lower()]
