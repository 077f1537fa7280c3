"""`fallow slurm check`: the GPUs of a node of Slurm, for its prolog and its health check."""

import argparse
from functools import partial

from fallow.core import units
from fallow.core.errors import CardFailed
from fallow.core.units import printable
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, takes
from fallow.interfaces.stderr import Stderr

ABOUT = """\
For prolog and health check of a Slurm node. Checks that GPUs are there and
answer, and with --free that nobody is on them but fillers. With SLURM_JOB_ID
in the environment these are the GPUs of the job, else all of the node. No
Slurm command is run.

exit codes: 0 all is well; 1 it is not, with one sentence on stderr;
69 no driver answers"""
EXAMPLES = """\
  fallow slurm check --count 8
  SLURM_JOB_ID=1 SLURM_JOB_GPUS=0,1 fallow slurm check --free"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow slurm`."""
    made.usage = "fallow slurm check [OPTIONS]"
    made.add_argument("part", choices=("check",), metavar="check", help="check the GPUs")
    made.add_argument("--free", action="store_true", help="also that nobody is on them, as a job that begins needs")
    takes(made, "--count N", partial(units.count, most=1024), "how many GPUs the node must have")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:  # noqa: ARG001  as of every command
    """Check the GPUs; raise CardFailed if something is wrong."""
    from fallow.engine.slurm_check import trouble_of

    trouble = trouble_of(world, free=args.free, count=args.count)
    if trouble is not None:
        raise CardFailed(printable(trouble))
    return 0
