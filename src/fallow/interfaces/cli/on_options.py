"""Name the options for other hosts; kept apart from what they do, which most commands never load."""

import argparse

from fallow.core.errors import WrongUsage
from fallow.core.units import duration_s
from fallow.interfaces.cli.options import takes

ANSWER_WITHIN_S = 10.0


def add_on(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the options that name other hosts and say how to reach them."""
    group = parser.add_argument_group("other hosts, over your own ssh")
    takes(group, "--on HOSTS", str, f"{what}: gpu1,gpu2 or 'gpu[1-4]' or 'gpu*'")
    takes(group, "--answer-within D", duration_s, "how long a host may take to answer (default: 10s)")
    takes(group, "--remote-fallow PATH", str, "where fallow is on the hosts (default: FALLOW_REMOTE, or on the PATH)")


def refuse_without_on(args: argparse.Namespace) -> None:
    """Refuse options that do nothing without --on."""
    for option in ("answer_within", "remote_fallow"):
        if getattr(args, option) is not None:
            name = option.replace("_", "-")
            raise WrongUsage(f"--{name} does nothing without --on; add that, or leave it out")
