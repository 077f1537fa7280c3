"""Make text of others plain before it reaches a chat, a mail or a terminal: no mention, no link, no markup."""

from fallow.core.units import printable

_LONGEST = 2000
# Each replacement looks nearly the same and has no meaning to a program.
_DEFUSED = str.maketrans({"@": "＠", "<": "‹", ">": "›", "[": "⟦", "]": "⟧", "`": "ˋ", "*": "∗"})


def as_plain(line: str) -> str:
    """Return one line without mentions, tags, links, emphasis, control or bidi characters."""
    plain = printable(" ".join(line.split())).translate(_DEFUSED).replace("://", ":∕∕").replace("www.", "www․")
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"


def as_plain_text(text: str) -> str:
    """Return a message with each line made plain."""
    return "\n".join(as_plain(line) for line in text.split("\n"))
