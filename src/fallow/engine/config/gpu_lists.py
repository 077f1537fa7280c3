"""Lists of GPUs as the config writes them, before it is known which GPUs the machine has."""

import re

from fallow.core.errors import WrongUsage
from fallow.core.units import is_number, shortened

_UUID = r"(?:MIG-)?(?:GPU-)?[0-9a-f][0-9a-f-]*(?:/\d+/\d+)?"
_HIGHEST_INDEX = 9999
_HOW = "write it as 0,2 or 0-3, as [0, 2], as UUIDs or their beginnings, or as all"


def gpu_list(value: object) -> str:
    """Return the list as the command line writes it, from text, a number, or a list of both."""
    items = value if isinstance(value, list) else [value]
    words: list[str] = []
    for item in items:
        if isinstance(item, str):
            words += [word.strip() for word in item.split(",")]
        elif isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _HIGHEST_INDEX:
            words.append(str(item))
        else:
            raise WrongUsage("it is not a list of GPUs", f"{_HOW}")
    if not words:
        raise WrongUsage("it names no GPU", f"{_HOW}")
    return ",".join(_checked(word) for word in words)


def may_share(one: str, other: str) -> bool:
    """Return whether two lists surely share a GPU. An index and a UUID may mean the same GPU: that is not known."""
    mine, others = _cards(one), _cards(other)
    return mine is None or others is None or not mine.isdisjoint(others)


def _checked(word: str) -> str:
    first, dash, last = word.partition("-")
    if is_number(first) and dash and is_number(last):
        if int(first) > int(last):
            raise WrongUsage(f"{word!r} runs backwards", f"write it as {last}-{first}")
        return word
    card, colon, slot = word.partition(":")
    known = word == "all" or is_number(word) or (colon and is_number(card) and is_number(slot))
    if not known and not re.fullmatch(_UUID, word, re.ASCII | re.IGNORECASE):
        raise WrongUsage(f"{shortened(word, 30)!r} names no GPU", f"{_HOW}")
    return word


def _cards(text: str) -> set[str] | None:
    """Return the GPUs of a list, by index or beginning of a UUID; None for all of them."""
    found: set[str] = set()
    for word in text.split(","):
        first, dash, last = word.partition("-")
        if word == "all":
            return None
        if is_number(first) and dash and is_number(last):
            found.update(str(index) for index in range(int(first), min(int(last), _HIGHEST_INDEX) + 1))
        else:
            found.add(str(int(word)) if is_number(word) else word.lower())
    return found
