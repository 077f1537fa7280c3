"""The parser of every command line, with fixes for argparse."""

import argparse

from fallow.core.annotations import Any

# Messages are not translated: looking for translations takes longer than parsing the command line.
argparse._ = str  # type: ignore[attr-defined]


class ArgumentParser(argparse.ArgumentParser):
    """argparse, with a converter for every value of an option."""

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:  # noqa: ANN401  as argparse has it
        # Several Pythons take the -- of `--opt=--` for a separator, drop it, and store [] without asking the
        # option's converter; others store it as it is. It is no value of any option of ours.
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "'--' is no value")
        return super()._get_values(action, arg_strings)

    @classmethod
    def of_older_tool(cls, name: str, what: str) -> "ArgumentParser":
        """Return the parser of an older tool's command line, whose help has the default of each option."""
        return cls(name, description=what, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
