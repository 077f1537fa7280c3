"""Write the man pages of fallow and of each command, from the parsers: the same words as the help has."""

import re
from collections.abc import Iterator, Sequence

from fallow import __version__
from fallow.core import errors
from fallow.interfaces.cli.command_words import Command, Kind, Word, all_commands

_ROFF = {
    "\\": r"\e",
    "-": r"\-",
    "'": r"\(aq",
    "`": r"\(ga",
    "^": r"\(ha",
    "~": r"\(ti",
    '"': r"\(dq",
}
_OF_ALL = "for every command"
_HELP_OPTION = ("-h", "--help")


def man_pages(date: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name of each page, such as `fallow-run.1`, and its text; `date` is that of the release."""
    before, *commands = all_commands()
    yield "fallow.1", _page(before, commands, date)
    for each in commands:
        yield f"fallow-{each.name}.1", _page(each, commands, date)


def _page(command: Command, commands: Sequence[Command], date: str) -> str:
    name = f"fallow-{command.name}" if command.name else "fallow"
    what = command.what if command.name else "find, reserve, fill and free idle GPUs"
    lines = [
        f'.TH {_plain(name.upper())} 1 "{date}" "fallow {__version__}" "fallow"',
        ".nh",
        ".SH NAME",
        rf"{_plain(name)} \- {_plain(what)}",
        ".SH SYNOPSIS",
        _synopsis(command.parser.usage or ""),
        ".SH DESCRIPTION",
        *_description(command),
    ]
    if command.bare is not None:
        lines += [".SH WORDS", *_words([command.bare])]
    if not command.name:
        lines += [".SH COMMANDS"]
        for each in commands:
            lines += [".TP", rf"\fBfallow\-{_plain(each.name)}\fR(1)", _plain(each.what)]
    lines += [".SH OPTIONS", *_options(command)]
    if not command.name:
        lines += [".SH EXIT STATUS", *_exit_codes()]
    examples = (command.parser.epilog or "").removeprefix("examples:\n")
    lines += [".SH EXAMPLES", ".EX", *map(_line, examples.splitlines()), ".EE", ".SH SEE ALSO", *_see_also(command)]
    return "\n".join(lines) + "\n"


def _synopsis(usage: str) -> str:
    """Return the usage with its fixed words in bold, and what is to be filled in in italics."""
    words = []
    for at, word in enumerate(usage.split()):
        fixed = at < 2 and word != "COMMAND" and word.strip("[]").islower()
        words.append(rf"\fB{_plain(word)}\fR" if fixed else re.sub(r"[A-Z]{2,}", r"\\fI\g<0>\\fR", _plain(word)))
    return " ".join(words)


def _description(command: Command) -> Iterator[str]:
    about = command.parser.description or ""
    if not command.name:
        about = about.partition("\n\ncommands:")[0]
    for at, paragraph in enumerate(about.split("\n\n")):
        if at:
            yield ".PP"
        yield from map(_line, paragraph.splitlines())


def _options(command: Command) -> Iterator[str]:
    for title, words in sorted(command.groups, key=lambda group: group[0] == _OF_ALL):
        shown = [word for word in words if word.names != _HELP_OPTION]
        if shown and title != "options":
            yield f".SS {_plain(title[:1].upper() + title[1:])}"
        yield from _words(shown)


def _words(words: Sequence[Word]) -> Iterator[str]:
    for word in words:
        value = "" if word.kind is Kind.FLAG else rf"\fI{_plain(word.metavar)}\fR"
        if value and word.may_be_left_out and word.names:
            value = f"[{value}]"
        names = ", ".join(rf"\fB{_plain(name)}\fR" for name in word.names)
        yield from (".TP", f"{names} {value}".strip(), _line(word.what))


def _exit_codes() -> Iterator[str]:
    yield from (".TP", "0", "it was done")
    listed: dict[int, list[str]] = {}
    for code, what in re.findall(r"\w+ {2,}(\d+) {2}([^;\n]+)", errors.__doc__ or ""):
        listed.setdefault(int(code), []).append(what)
    for code, meanings in sorted(listed.items()):
        yield from (".TP", str(code), _line("; or ".join(meanings)))


def _see_also(command: Command) -> Iterator[str]:
    if command.name:
        yield r"\fBfallow\fR(1), \fBfallow\-doctor\fR(1)"
    else:
        yield r"\fBnvidia\-smi\fR(1)"


def _line(text: str) -> str:
    """Return one line of text that roff takes for no command."""
    plain = _plain(text)
    return rf"\&{plain}" if plain.startswith(".") else plain


def _plain(text: str) -> str:
    return "".join(_ROFF.get(letter, letter) for letter in text)
