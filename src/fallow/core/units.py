"""What people type: durations, sizes, per cent, lists of GPUs."""

import re

from fallow.core.errors import WrongUsage

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _BYTES[_letter] = _BYTES[f"{_letter}IB"] = 1024**_power
    _BYTES[f"{_letter}B"] = 1000**_power

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Z]*)", re.ASCII)


def duration_s(text: str) -> float:
    """Seconds of `90`, `90s`, `10m`, `2h`, `1h30m`, `500ms`, `7d`."""
    word = text.strip().lower()
    if _NUMBER.fullmatch(word):
        return float(word)
    if not _DURATION.fullmatch(word):
        raise WrongUsage(f"{text!r} is no duration; write it as 90, 90s, 10m, 2h or 1h30m")
    return sum(float(count) * _SECONDS[unit] for count, unit in _DURATION_PART.findall(word))


def size_bytes(text: str) -> int:
    """Bytes of `20GiB`, `20G` (the same), `512MB` (decimal) or a plain number."""
    match = _SIZE.fullmatch(text.strip().upper())
    if match is None or match[2] not in _BYTES:
        raise WrongUsage(f"{text!r} is no size; write it as 20GiB, 20G or 512MB")
    return int(float(match[1]) * _BYTES[match[2]])


def ratio(text: str) -> float:
    """The ratio 0..1 of `5` or `5%`."""
    word = text.strip().removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(word) or float(word) > 100:
        raise WrongUsage(f"{text!r} is no per cent between 0 and 100; write it as 5 or 5%")
    return float(word) / 100


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.strip().isascii() or not text.strip().isdigit() or int(text) < 1:
        raise WrongUsage(f"{text!r} is no count; write a whole number of at least 1")
    return int(text)


def count_or_zero(text: str) -> int:
    """A whole number, 0 among them."""
    if not text.strip().isascii() or not text.strip().isdigit():
        raise WrongUsage(f"{text!r} is no count; write a whole number")
    return int(text)


def bytes_for_people(number: float) -> str:
    """`79.6 GiB`, `512 MiB`, `0`."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= scale:
            return f"{number / scale:.1f} {unit}" if number < 100 * scale else f"{number / scale:.0f} {unit}"
    return f"{number:.0f}"


def duration_for_people(seconds: float) -> str:
    """`45s`, `12m`, `1h30m`, `3d4h`."""
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
