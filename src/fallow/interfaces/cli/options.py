"""Options that several verbs share, and the parser that answers mistakes in one sentence."""

import argparse
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from fallow.core import units
from fallow.core.arguments import ArgumentParser
from fallow.core.errors import WrongUsage
from fallow.engine.allocate.pick import FOREVER, Request
from fallow.policies.pick import Order, Wanted

SIMULATE_DEFAULT = "8xH100"
T = TypeVar("T")
_SHORTEST_TICK_S = 0.05
_TAKE_COMMAND = ("fallow run", "fallow fill")


class _Layout(argparse.RawDescriptionHelpFormatter):
    """Help as it is written. argparse makes one for every option, and would load shutil for its width."""

    def __init__(self, prog: str) -> None:
        try:
            width = os.get_terminal_size().columns
        except OSError:
            width = 100
        super().__init__(prog, width=min(width, 100) - 2)


class Parser(ArgumentParser):
    """A parser whose mistakes are ours: one sentence, exit code 2."""

    def __init__(self, prog: str, description: str, examples: str, parents: list[argparse.ArgumentParser]) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=_Layout,
            allow_abbrev=False,
            parents=parents,
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read more."""
        raise WrongUsage(f"{message} (see: {self.prog} --help)")

    def parse_args(self, args: Sequence[str], namespace: Any = None) -> Any:  # type: ignore[override]  # noqa: ANN401  as argparse has it
        """All of them; words that are left over may be a command that was written in front of its place."""
        parsed, left = self.parse_known_args(args, namespace)
        if left and left[0].startswith("--"):
            option = left[0].partition("=")[0]
            self.error(f"there is no option {option}{did_you_mean(option, self._option_string_actions)}")
        if left:
            hint = f"; a command goes behind --, as in: {self.prog} -- CMD ..." if self.prog in _TAKE_COMMAND else ""
            self.error(f"unrecognized arguments: {' '.join(left)}{hint}")
        return parsed


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean status?`, where one of these is near to it."""
    from difflib import get_close_matches  # only a mistake pays for it

    alike = get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {alike[0]}?" if alike else ""


def typed(convert: Callable[[str], T]) -> Callable[[str], T]:
    """A converter of ours whose complaint names the option."""

    def converter(text: str) -> T:
        try:
            return convert(text)
        except WrongUsage as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converter


def every_s(text: str) -> float:
    """How often to look: a duration that is not zero."""
    seconds = typed(units.duration_s)(text)
    if seconds < _SHORTEST_TICK_S:
        raise argparse.ArgumentTypeError(f"{text!r} is too often; at least {_SHORTEST_TICK_S:g} s")
    return seconds


def common() -> argparse.ArgumentParser:
    """What every verb takes."""
    parser = argparse.ArgumentParser(add_help=False)
    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "--simulate",
        metavar="MACHINE",
        default=argparse.SUPPRESS,
        help=f"work on simulated GPUs: --simulate is {SIMULATE_DEFAULT}, else --simulate 4xA100 (or FALLOW_SIMULATE)",
    )
    group.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help="say more on stderr")
    group.add_argument(
        "--log-format",
        choices=("text", "json"),
        default=argparse.SUPPRESS,
        help="how stderr speaks (default: text)",
    )
    return parser


def add_alone(parser: argparse.ArgumentParser) -> None:
    """For verbs that ask the daemon where there is one."""
    parser.add_argument("--alone", action="store_true", help="do not ask the daemon, even if there is one")


def add_choice(parser: argparse.ArgumentParser) -> None:
    """The options that say which GPUs are wanted."""
    group = parser.add_argument_group("which GPUs")
    group.add_argument(
        "-n", "--count", type=typed(units.count), metavar="N", help="how many (default: 1, or all of --gpus)"
    )
    group.add_argument(
        "--gpus", metavar="LIST", help="these, or -n of them: 0,2 or 0-3, UUIDs or their beginnings, all"
    )
    group.add_argument("--name", metavar="TEXT", help="only GPUs with this in their name, such as H100")
    group.add_argument(
        "--max-util",
        type=typed(units.ratio),
        default=0.0,
        metavar="P",
        help="utilization up to P per cent (default: 0)",
    )
    group.add_argument(
        "--max-mem-util",
        type=typed(units.ratio),
        default=0.0,
        metavar="P",
        help="memory traffic up to P per cent (default: 0)",
    )
    group.add_argument(
        "--max-processes",
        type=typed(units.count_or_zero),
        default=0,
        metavar="N",
        help="held by up to N processes (default: 0)",
    )
    group.add_argument(
        "--min-free", type=typed(units.size_bytes), default=0, metavar="SIZE", help="with so much free memory: 20GiB"
    )
    group.add_argument(
        "--order",
        choices=[order.value for order in Order],
        default=Order.BEST.value,
        help="best: most free memory, coolest, best connected, then by chance (default)",
    )
    group.add_argument(
        "--wait",
        nargs="?",
        type=typed(units.duration_s),
        const=FOREVER,
        metavar="DURATION",
        help="wait until there are enough, for ever or so long",
    )


def request(args: argparse.Namespace, *, shared: bool = False) -> Request:
    """What the options ask for."""
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
