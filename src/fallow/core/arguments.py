"""The parser of words that every command line of ours goes through, with what argparse gets wrong mended."""

import argparse
import sys
from typing import Any, Protocol

# Our own words are not translated, so neither are argparse's: looking for translations of each takes longer than
# parsing the command line.
argparse._ = str  # type: ignore[attr-defined]


class _Writes(Protocol):
    def write(self, text: str, /) -> object: ...


class ArgumentParser(argparse.ArgumentParser):
    """argparse, but no value of an option escapes its converter."""

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:  # noqa: ANN401  as argparse has it
        # Several Pythons take the -- of `--opt=--` for a separator, drop it, and store [] without asking the
        # option's converter; others store it as it is. It is no value of any option of ours.
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "'--' is no value")
        return super()._get_values(action, arg_strings)

    def print_help(self, file: _Writes | None = None) -> None:
        """Print it, or fail: newer Pythons swallow that it could not be written."""
        (sys.stdout if file is None else file).write(self.format_help())
