"""Describe what can be typed behind `fallow`, for completion and man pages: read from the parsers of the commands."""

import argparse
import re
import signal
from collections.abc import Iterator
from enum import StrEnum

from fallow.core.activity import Activity
from fallow.core.value import value
from fallow.interfaces.cli.compat import TOOLS
from fallow.interfaces.cli.main import COMMANDS, HELP, SHOWS_HELP, command_of, without_command
from fallow.interfaces.cli.options import SIMULATE_DEFAULT, Parser, common


class Kind(StrEnum):
    """What a word means; a shell completes it accordingly."""

    FLAG = "flag"
    """Nothing: the option takes no value."""
    ANYTHING = "anything"
    WORDS = "words"
    FILE = "file"
    FOLDER = "folder"
    GPUS = "gpus"
    USER = "user"
    PROTECTION = "protection"
    SUBJECT = "subject"
    PARKED = "parked"
    """A subject, or a job that is parked now."""


@value
class Word:
    """An option, or a word without one."""

    names: tuple[str, ...]
    """`-n`, `--count`; empty for a word without an option."""
    metavar: str
    what: str
    kind: Kind
    words: tuple[str, ...] = ()
    may_be_left_out: bool = False
    """Whether the option stands without a value too."""
    several: bool = False


@value
class Command:
    """A command: its name, its sentence, its parser, and what can be typed behind it."""

    name: str
    what: str
    parser: Parser
    groups: tuple[tuple[str, tuple[Word, ...]], ...]
    """The options below each heading of the help."""
    bare: Word | None = None
    """The words without an option."""
    runs_program: bool = False

    @property
    def options(self) -> tuple[Word, ...]:
        """Return the options of all groups."""
        return tuple(word for _, words in self.groups for word in words)


_BY_METAVAR = {
    "FILE": Kind.FILE,
    "PATH": Kind.FILE,
    "DIR": Kind.FOLDER,
    "LIST": Kind.GPUS,
    "GPUS": Kind.GPUS,
    "SUBJECT": Kind.SUBJECT,
}
_SIGNALS = tuple(
    each.name.removeprefix("SIG") for each in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
)
BY_OPTION: dict[tuple[str, str], tuple[Kind, tuple[str, ...]]] = {
    ("top", "--user"): (Kind.USER, ()),
    ("fill", "--ignore-user"): (Kind.USER, ()),
    ("top", "--activity"): (Kind.WORDS, tuple(each.value for each in Activity)),
    ("protect", "--release"): (Kind.PROTECTION, ()),
    ("run", "--signal"): (Kind.WORDS, _SIGNALS),
    ("run", "--warn-signal"): (Kind.WORDS, _SIGNALS),
    ("stop", "--signal"): (Kind.WORDS, _SIGNALS),
    ("wake", "SUBJECT"): (Kind.PARKED, ()),
    ("compat", "NAME"): (Kind.WORDS, tuple(TOOLS)),
}
"""What a value is, where its metavar does not say it."""
_RUN_PROGRAM = ("run", "fill")
_HEADINGS = ("positional arguments",)


def all_commands() -> Iterator[Command]:
    """Yield each command, and `help`; the first has no name: it is what can be typed before a command."""
    yield _command("", "One tool for idle GPUs.", without_command(common()))
    for name, what in COMMANDS.items():
        yield _command(name, what, command_of(name, common())[1])


def help_words() -> Word:
    """Return the words behind `fallow help`."""
    return Word((), "COMMAND", SHOWS_HELP, Kind.WORDS, (*COMMANDS, HELP))


def _command(name: str, what: str, parser: Parser) -> Command:
    groups: list[tuple[str, tuple[Word, ...]]] = []
    bare = None
    for group in parser._action_groups:
        words = tuple(_word(name, action) for action in group._group_actions if action.help != argparse.SUPPRESS)
        if group.title in _HEADINGS:
            bare = words[0] if words else None
        elif words:
            groups.append((group.title or "", words))
    return Command(name, what, parser, tuple(groups), bare, name in _RUN_PROGRAM)


def _word(command: str, action: argparse.Action) -> Word:
    names = tuple(action.option_strings)
    what = (action.help or "").replace("%%", "%")
    several = isinstance(action, argparse._AppendAction) or action.nargs in ("+", "*")
    if action.nargs == 0:
        return Word(names, "", what, Kind.FLAG)
    metavar = str(action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper())
    kind, words = BY_OPTION.get((command, names[-1] if names else metavar), (None, ()))
    if kind is None and action.choices is not None:
        kind, words = Kind.WORDS, tuple(map(str, action.choices))
    if names == ("--simulate",):
        kind, words = Kind.WORDS, (SIMULATE_DEFAULT, "4xA100")
    if kind is None:
        kind = _BY_METAVAR.get(metavar, Kind.ANYTHING)
    if kind is Kind.SUBJECT:
        kind = Kind.SUBJECT if "GPU" in what else Kind.WORDS
    if metavar == "SUBJECT":
        words = _kinds_of_subject(what)
    return Word(
        names, metavar.strip("[]"), what, kind, words, action.nargs == "?" or metavar.startswith("["), several
    )


def _kinds_of_subject(what: str) -> tuple[str, ...]:
    """Return the beginnings of a subject that its help names, such as `user:`, and its whole words."""
    return tuple(dict.fromkeys(re.findall(r"\b[a-z]+:(?=[A-Z…])|\b(?:mine|all)\b(?!\w)", what)))
