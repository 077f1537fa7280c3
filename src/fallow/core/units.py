"""Read and write durations, sizes, per cent and hours as people type them."""

import re
from collections.abc import Mapping
from functools import lru_cache, partial

from fallow.core.errors import WrongUsage

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_BYTES = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _BYTES[_letter] = _BYTES[f"{_letter}IB"] = 1024**_power
    _BYTES[f"{_letter}B"] = 1000**_power

# Patterns are compiled when first used, not when loaded: most runs need none of them.
_LONGEST_WORD = 18
_LONGEST_PROGRAM = 40
_KNOWN_COMMANDS = 256  # a daemon meets the same ones every second
_DURATION = r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+"
_DURATION_PART = r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)"
_NUMBER = r"\d+(?:\.\d+)?"
_HOURS = r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-4]):([0-5]\d)"
_SIZE = r"(\d+(?:\.\d+)?)\s*([A-Z]*)"


def duration_s(text: str, *, needs_unit: bool = False) -> float:
    """Return the seconds of `90`, `90s`, `10m`, `2h`, `1h30m`, `500ms`, `7d`, `2w`; `0` needs no unit anywhere."""
    word = text.strip().lower()
    if len(word) > _LONGEST_WORD or not re.fullmatch(f"{_NUMBER}|{_DURATION}", word, re.ASCII):
        bare = "" if needs_unit else "90, "
        raise WrongUsage(
            f"{text[:_LONGEST_WORD]!r} is not a duration", f"write it as {bare}90s, 10m, 2h, 1h30m or 7d"
        )
    if not re.fullmatch(_NUMBER, word, re.ASCII):
        return sum(float(count) * _SECONDS[unit] for count, unit in re.findall(_DURATION_PART, word, re.ASCII))
    if needs_unit and float(word):
        raise WrongUsage(f"{word!r} has no unit", f"write {word}s, {word}m, {word}h or {word}d")
    return float(word)


span_s = partial(duration_s, needs_unit=True)
"""Returns the seconds of a duration with a unit: a bare number could mean minutes or days."""


def patience_s(environ: Mapping[str, str], name: str, usual_s: float, whom: str) -> float:
    """Return how long a variable says that somebody may take; without it, the usual time."""
    text = environ.get(name)
    if not text:
        return usual_s
    try:
        found_s = duration_s(text)
    except WrongUsage as error:
        raise WrongUsage(f"{name}: {error.sentence}", error.way) from None
    if found_s <= 0:
        raise WrongUsage(f"{name}={text} leaves {whom} no time")
    return found_s


def size_bytes(text: str) -> int:
    """Return the bytes of `20GiB`, `20G` (the same), `512MB` (decimal), or 0."""
    match = re.fullmatch(_SIZE, text.strip().upper()[: _LONGEST_WORD + 1], re.ASCII)
    if match is None or match[2] not in _BYTES or len(match[0]) > _LONGEST_WORD:
        raise WrongUsage(f"{text[:_LONGEST_WORD]!r} is not a size", "write it as 20GiB, 20G or 512MB")
    if not match[2] and float(match[1]):
        raise WrongUsage(f"{match[1]!r} has no unit", f"write {match[1]}GiB, {match[1]}MiB or {match[1]}B")
    return int(float(match[1]) * _BYTES[match[2]])


def ratio(text: str, most: int = 100, *, above_zero: bool = False) -> float:
    """Return the ratio of `5` or `5%`: 0..1, or above 1 where more than 100 per cent are possible."""
    word = text.strip().removesuffix("%").rstrip()
    if not re.fullmatch(_NUMBER, word, re.ASCII) or float(word) > most:
        raise WrongUsage(f"{text!r} is not a per cent between 0 and {most}", "write it as 5 or 5%")
    if above_zero and not float(word):
        raise WrongUsage("nothing is below 0", "write more than 0, as 1")
    return float(word) / 100


some_ratio = partial(ratio, above_zero=True)
"""Returns a ratio below which something can be."""


def hours(text: str) -> tuple[int, int]:
    """Return the first and last minute of the day of `20:00-07:00`; past midnight if the last is earlier."""
    match = re.fullmatch(_HOURS, text.strip(), re.ASCII)
    first, last = (int(match[at]) * 60 + int(match[at + 1]) for at in (1, 3)) if match else (0, 0)
    if first == last % (24 * 60) or last > 24 * 60:
        raise WrongUsage(f"{text[:_LONGEST_WORD]!r} is not a range of hours", "write it as 20:00-07:00")
    return first, last


def count(text: str, least: int = 1, most: int | None = None) -> int:
    """Return a whole number that is neither below `least` nor above `most`."""
    if not is_number(text.strip()) or int(text) < least or (most is not None and int(text) > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise WrongUsage(f"{text[:_LONGEST_WORD]!r} is not a count", f"write a whole number {limits}")
    return int(text)


def is_number(word: str) -> bool:
    """Return whether the text is a whole number that int() can read: it fails on some digits, and on too many."""
    return word.isascii() and word.isdigit() and len(word) <= _LONGEST_WORD


def printable(text: str) -> str:
    """Return the text without anything that moves a cursor, ends a line or cannot be encoded."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@lru_cache(maxsize=_KNOWN_COMMANDS)
def shortened(command: str, most: int = 60) -> str:
    """Return a command in one line, cut to some length."""
    line = printable(" ".join(command.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


@lru_cache(maxsize=_KNOWN_COMMANDS)
def program_name(command: str) -> str:
    """Return what others may read of a command line: its first word, without folder and assigned values.

    Processes of the kernel have no command line, only a name in brackets, which stays.
    """
    first, *rest = command.split(maxsplit=1) or ["?"]
    if rest or not (first.startswith("[") and first.endswith("]")):
        first = first.rpartition("/")[2].partition("=")[0].rstrip(":")
    return printable(first)[:_LONGEST_PROGRAM] or "?"


def bytes_for_people(number: float) -> str:
    """`79.6 GiB`, `512 MiB`, `0`."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}" if number < 100 * scale else f"{number / scale:.0f} {unit}"
    return f"{number:.0f}"


def duration_for_people(seconds: float) -> str:
    """`0.5s`, `45s`, `12m`, `1h30m`, `3d4h`."""
    if 0 < seconds < 10 and round(seconds, 1) != int(seconds):
        return f"{seconds:.1f}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, left = divmod(rest, 60)
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    return f"{minutes}m{left}s" if left else f"{minutes}m"
