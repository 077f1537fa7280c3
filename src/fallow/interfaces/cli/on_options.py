"""The option for other hosts; kept apart from what it does, which most commands never load."""

import argparse

from fallow.interfaces.cli.options import takes


def add_on(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option that names other hosts."""
    group = parser.add_argument_group("other hosts, over your own ssh")
    takes(group, "--on HOSTS", str, f"{what}: gpu1,gpu2 or 'gpu[1-4]' or 'gpu*'")
