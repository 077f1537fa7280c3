"""Options that several commands share, and a parser that reports a mistake in one sentence."""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import pairwise

from fallow.core import units
from fallow.core.annotations import Any, NoReturn, TypeVar
from fallow.core.arguments import ArgumentParser
from fallow.core.did_you_mean import did_you_mean, most_alike
from fallow.core.errors import WrongUsage
from fallow.engine.allocate.search import FOREVER, Request
from fallow.policies.pick import Order, Wanted

SIMULATE_DEFAULT = "8xH100"
T = TypeVar("T")
_SHORTEST_TICK_S = 0.05
_WIDTH = 80  # argparse would load shutil to ask the terminal
_TAKE_COMMAND = ("fallow run", "fallow fill")
_OF_EVERY_COMMAND = ("simulate", "verbose", "log_format")
_MISSING = "the following arguments are required: "


class Parser(ArgumentParser):
    """A parser that reports a mistake in one sentence, with exit code 2."""

    def __init__(self, prog: str, description: str, examples: str, parents: list[argparse.ArgumentParser]) -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} [OPTIONS]",
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=_WIDTH),
            allow_abbrev=False,
            parents=parents,
        )
        self._negative_number_matcher = re.compile(r"-\d")  # -3s is a wrong value, and no option

    def error(self, message: str) -> NoReturn:
        """Raise WrongUsage, which says what is wrong and where to read more."""
        sentence = message.removeprefix("argument ").replace("expected one argument", "needs a value")
        sentence = sentence.replace(": not allowed with argument", " cannot be given together with")
        if sentence.startswith(_MISSING):
            sentence = f"{sentence.removeprefix(_MISSING)} is missing"
        raise WrongUsage(f"{sentence} (see: {self.prog} --help)")

    def parse_args(  # type: ignore[override]  # as argparse has it
        self,
        args: Sequence[str],
        namespace: Any = None,  # noqa: ANN401
        command: Sequence[str] | None = None,
    ) -> Any:  # noqa: ANN401
        """Parse all words. Words that are left over may be a program that was not written after `--`."""
        if any(word == "#" and not self._takes_value(before) for before, word in pairwise(["", *args])):
            way = "leave out # and what follows; zsh takes comments after: setopt interactivecomments"
            raise WrongUsage(f"the shell has passed a comment on; {way}")
        parsed, left = self.parse_known_args(args, namespace)
        if not left:
            return parsed
        if self.prog in _TAKE_COMMAND and not left[0].startswith("-"):
            self._refuse_program(args, left[0], command)
        option = next((word.partition("=")[0] for word in left if word.startswith("-")), None)
        if option is not None:
            way = self._instead_of(option)
            if not way and self.prog == "fallow":
                way = "an option of a command goes behind its name"
            self.error(f"there is no option {option}{way and f'; {way}'}")
        many, them = ("one word", "it") if len(left) == 1 else (f"{len(left)} words", "them")
        gpus = f", or write --gpus {','.join(left)}" * ("--gpus" in self._option_string_actions)
        return self.error(f"{' '.join(left)!r} is {many} too many; leave {them} out{gpus}")

    def _takes_value(self, word: str) -> bool:
        option = self._option_string_actions.get(word)
        return option is not None and option.nargs != 0

    def _refuse_program(self, args: Sequence[str], first: str, command: Sequence[str] | None) -> None:
        """Raise WrongUsage if the first word that is left over is a number of GPUs, or of a program without `--`."""
        import shlex

        ends = (at for at, word in enumerate(args) if word == first)
        at = next(at for at in ends if self.parse_known_args(args[: at + 1])[1] == [first])
        before, rest = [*self.prog.split(), *args[:at]], args[at + 1 :]
        if units.is_number(first) and "-n" in self._option_string_actions:
            behind = ["--", *rest] if command is None else [*rest, "--", *command]
            line = shlex.join([*before, "-n", first, *behind])
            raise WrongUsage(f"a number of GPUs goes behind -n; write: {line}")
        if command is None:
            raise WrongUsage(f"a command goes behind --; write: {shlex.join([*before, '--', *args[at:]])}")

    def _instead_of(self, option: str) -> str:
        """Return what to write instead of an option that does not exist, or nothing: --format json for --json."""
        word = option.lstrip("-")
        own = [action for action in self._actions if action.dest not in _OF_EVERY_COMMAND]
        takes_it = [action.option_strings[-1] for action in own if action.option_strings and word in _choices(action)]
        if takes_it:
            return f"write {takes_it[0]} {word}"
        names = {name[2:]: name for name in self._option_string_actions if name.startswith("--")}
        begin_so = [name for name in names if word and name.startswith(word)]
        alike = begin_so[0] if len(begin_so) == 1 else most_alike(word, names, 0.7)
        return alike and f"did you mean {names[alike]}?"

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            choices = _choices(action)
            way = did_you_mean(str(value), choices) or f"write {', '.join(choices[:-1])} or {choices[-1]}"
            raise argparse.ArgumentError(action, f"{value!r} is not known here; {way}")


def _choices(action: argparse.Action) -> list[str]:
    return [str(choice) for choice in action.choices or ()]


def typed(convert: Callable[[str], T]) -> Callable[[str], T]:
    """Return a converter whose error names the option."""

    def converter(text: str) -> T:
        try:
            return convert(text)
        except WrongUsage as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converter


def every_s(text: str) -> float:
    """Return the seconds between two readings: a duration that is not zero."""
    seconds = typed(units.duration_s)(text)
    if seconds < _SHORTEST_TICK_S:
        raise argparse.ArgumentTypeError(f"{text!r} is too often; write at least {_SHORTEST_TICK_S:g}s")
    return seconds


def takes(
    group: argparse._ActionsContainer,
    usage: str,
    read: Callable[[str], object],
    what: str,
    default: object = None,
    dest: str | None = None,
) -> None:
    """Add an option with a value, such as `-n --count N`; `what` is its help."""
    *flags, metavar = usage.split()
    group.add_argument(*flags, type=typed(read), metavar=metavar, help=what, default=default, dest=dest)


def several(group: argparse._ActionsContainer, usage: str, what: str) -> None:
    """Add an option that can be given several times."""
    flag, metavar = usage.split()
    what = f"{what}; can be given several times"
    group.add_argument(flag, action="append", default=[], metavar=metavar, help=what)


def chooses(
    group: argparse._ActionsContainer,
    flag: str,
    choices: Iterable[str],
    what: str,
    default: str,
    dest: str | None = None,
    metavar: str | None = None,
) -> None:
    """Add an option whose value is one of some words."""
    group.add_argument(
        flag, choices=[str(each) for each in choices], default=default, help=what, dest=dest, metavar=metavar
    )


def common() -> argparse.ArgumentParser:
    """Return the options that every command takes."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("for every command")
    machine = f"4xA100, or {SIMULATE_DEFAULT} without MACHINE (FALLOW_SIMULATE does the same)"
    takes(group, "--simulate [MACHINE]", str, f"use simulated GPUs: {machine}", argparse.SUPPRESS)
    group.add_argument(
        "-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="print more about what is done"
    )
    group.add_argument(
        "--log-format",
        choices=("text", "json"),
        default=argparse.SUPPRESS,
        help="print messages on stderr as text or as JSON lines (default: text)",
    )
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option of commands that can print their result as JSON."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that select GPUs."""
    group = parser.add_argument_group("which GPUs")
    add = partial(takes, group)
    add("-n --count N", units.count, "take N GPUs (default: 1; with --gpus, all of the list)")
    add("--gpus LIST", str, "take them from this list: 0,2 or 0-3, UUIDs or how they begin, all")
    add("--name TEXT", str, "take only GPUs whose name contains TEXT, such as H100")
    add("--max-util P", units.ratio, "take GPUs whose utilization is at most P per cent (default: 0)", 0.0)
    add("--max-mem-util P", units.ratio, "take GPUs whose memory traffic is at most P per cent (default: 0)", 0.0)
    add("--max-processes N", partial(units.count, least=0), "take GPUs that at most N processes hold (default: 0)", 0)
    add("--min-free SIZE", units.size_bytes, "take GPUs with at least so much free memory, such as 20GiB", 0)
    chooses(
        group,
        "--order",
        Order,
        "which to take first: those with most free memory, coolest and best connected; at random; or by "
        "index (default: best)",
        Order.BEST.value,
    )
    group.add_argument(
        "--wait",
        nargs="?",
        type=typed(units.duration_s),
        const=FOREVER,
        metavar="DURATION",
        help="wait in line until there are enough GPUs, at most so long (default: do not wait)",
    )


def request(args: argparse.Namespace, *, shared: bool = False) -> Request:
    """Return the request that the options describe."""
    wanted = Wanted(
        count=1 if args.count is None else args.count,
        name=args.name,
        max_utilization=args.max_util,
        max_memory_utilization=args.max_mem_util,
        max_processes=args.max_processes,
        min_free_bytes=args.min_free,
        order=Order(args.order),
        shared=shared,
    )
    return Request(wanted, args.gpus, args.count is None, args.wait)


def interruptible_while_waiting(request: Request) -> AbstractContextManager[object]:
    """Return a block in which a launch that waits gives up its place before a signal ends it."""
    if request.wait_s is None:
        return nullcontext()
    from fallow.interfaces.signals import interruptible

    return interruptible()
