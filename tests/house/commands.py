"""The commands that the documents tell people to give: found in their blocks, and in the shell lines there."""

import pathlib
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

from tests.places import REPOSITORY

PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md")),
    *(path for path in sorted((REPOSITORY / "docs").rglob("*.md")) if "decisions" not in path.parts),
]
INLINE = re.compile(r"(?<!`)`((?:[A-Z_]+=\S+ )?(?:sudo )?fallow [a-z][^`\n]*)`")
PLACEHOLDER = re.compile(r"…|\b[A-Z]+\b|[\[{|<]|\bFALLOW|^fallow (?:and|or|is)\b")
_BLOCK = re.compile(r"^ *```(?P<kind>[^\n]*)\n(?P<text>.*?)^ *```$", re.M | re.S)
_SHOWN = ("console", "text", "")
"""Kinds of blocks that show what a command prints: commands are the lines behind a `$`."""
_ENDS = re.compile(r"[;&|()<>]+")
_BEFORE = {"sudo", "exec", "if", "while", "until", "then", "do", "!", "time", "nohup"}


class Block(NamedTuple):
    """One block of a document: where it is, and its command lines."""

    page: pathlib.Path
    line: int
    lines: list[str]

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(REPOSITORY)}:{self.line}"


def blocks(page: pathlib.Path, text: str | None = None) -> Iterator[Block]:
    """Yield the blocks of a document that hold shell commands."""
    text = page.read_text() if text is None else text
    for found in _BLOCK.finditer(text):
        kind = found["kind"].strip()
        lines = _whole_lines(found["text"])
        if kind in _SHOWN:
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif kind != "sh":
            continue
        commands = [each for each in lines if not each.startswith("#")]
        if commands:
            yield Block(page, text.count("\n", 0, found.start()) + 1, commands)


def _whole_lines(text: str) -> list[str]:
    """Return its lines that are not empty, each joined with those that a backslash continues it by."""
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def words(line: str) -> list[str]:
    """Return the words of a shell line, with what stands between two commands as words of their own."""
    found = shlex.shlex(line, posix=True, punctuation_chars=True)
    found.commenters = ""
    found.wordchars += "{}[]*?$:@%+,!…"
    kept = []
    for word in found:
        if word.startswith("#"):
            break
        kept.append(word)
    return kept


def calls(line: str) -> list[list[str]]:
    """Return the words of each call of fallow in a shell line, also of those inside others."""
    found: list[list[str]] = []
    begun: list[str] | None = None
    starts = True
    for word in words(line):
        for inner in re.findall(r"\$\((fallow [^)]*)\)", word):
            found += calls(inner)
        if _ENDS.fullmatch(word):
            if begun and word[0] == ">" and begun[-1] == "2":
                del begun[-1]
            begun, starts = None, "<" not in word and ">" not in word
        elif begun is not None:
            begun.append(word)
        elif starts and word.rpartition("/")[2] == "fallow":
            begun = []
            found.append(begun)
        elif starts and word not in _BEFORE and not re.match(r"[A-Z_]+=", word):
            starts = False
    for call in list(found):  # `fallow fill -- fallow burn`
        if "--" in call and call[call.index("--") + 1 :][:1] == ["fallow"]:
            found.append(call[call.index("--") + 2 :])
    return found
