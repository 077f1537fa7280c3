"""What others wrote, made plain before it reaches a chat, a mail or a terminal: no mention, no link, no markup."""

from fallow.core.units import printable

_LONGEST = 2000
# Each looks nearly the same and means nothing: to a person the sentence stays what it was.
_DEFUSED = str.maketrans({"@": "＠", "<": "‹", ">": "›", "[": "⟦", "]": "⟧", "`": "ˋ", "*": "∗"})


def as_plain(line: str) -> str:
    """One line that no program reads anything into: no mention, tag, link, emphasis, control or bidi letter."""
    plain = printable(" ".join(line.split())).translate(_DEFUSED).replace("://", ":∕∕").replace("www.", "www․")
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"


def as_plain_text(text: str) -> str:
    """The same for each line of a message that has several of ours."""
    return "\n".join(as_plain(line) for line in text.split("\n"))
