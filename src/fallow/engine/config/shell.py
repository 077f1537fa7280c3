"""Find shell syntax in a command that is run without a shell."""

import os
import re
import shlex

from fallow.core.errors import WrongUsage

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_OPERATORS = frozenset("();<>|&")
_BUILTINS = frozenset({"cd", "export", "source", ".", "set", "unset", "ulimit", "umask", "alias", "eval", "exec"})
_HOW = """write it as ["sh", "-c", "..."]"""


def refuse_shell(line: str, words: list[str]) -> None:
    """Raise ValueError if the line, which was split into these words, would mean something else in a shell."""
    if not words:
        return
    found = next((word for word in _as_written(line) if set(word) <= _OPERATORS), None)
    if found is not None:
        raise WrongUsage(f"{found!r} is for a shell, and no shell runs it", _HOW)
    if words[0] in _BUILTINS:
        raise WrongUsage(f"{words[0]!r} is a word of the shell, and no shell runs it", f"{_HOW}, or use cwd and env")
    name, equals, _ = words[0].partition("=")
    if equals and name.isidentifier():
        raise WrongUsage(f"{name} would be set by a shell, and no shell runs it", "set it in env")
    if os.path.basename(words[0]) not in SHELLS and _expands(line):
        raise WrongUsage("a shell would put something in the place of '$' or '`', and no shell runs it", _HOW)


def _as_written(line: str) -> list[str]:
    """Return the words of a line with their quotes, so that a quoted one is not taken for an operator."""
    apart = shlex.shlex(re.sub(r"\\.", "x", line), posix=False, punctuation_chars=True)
    apart.whitespace_split = True
    try:
        return list(apart)
    except ValueError:  # quotes within words, which shlex does not support in this mode
        return []


def _expands(line: str) -> bool:
    """Return whether there is a `$name`, `${`, `$(` or a backtick outside single quotes."""
    quoted, escaped = False, False
    for letter, after in zip(line, [*line[1:], ""], strict=True):
        if escaped:
            escaped = False
        elif letter == "'":
            quoted = not quoted
        elif letter == "\\" and not quoted:
            escaped = True
        elif not quoted and (letter == "`" or (letter == "$" and (after.isalpha() or after in ("_", "{", "(")))):
            return True
    return False
