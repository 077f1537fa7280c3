"""`fallow compat NAME …`: accept the command line of an older tool."""

import argparse
import importlib

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser
from fallow.interfaces.signals import interruptible
from fallow.interfaces.stderr import Stderr

TOOLS = {
    "gpu_idle_timeout": "idle_timeout",
    "gpu_mon": "gpu_mon",
    "gpu_sentinel": "sentinel",
    "gpu_stress": "stress",
    "gpuselect": "selecting_command",
}
"""Each older tool, with the file of `fallow.compat` that has its command line."""
ABOUT = """\
Run the command line of an older tool with fallow. Everything behind NAME is the
tool's own."""
EXAMPLES = """\
  fallow compat gpu_idle_timeout -t 10 -s 10 -n 5 -d 3 python train.py
  fallow compat gpu_sentinel --arm_duration 60 --kill_action shutdown
  fallow compat gpu_mon --print-config > fallow.toml
  fallow compat gpu_stress
  fallow compat gpuselect --count 2 -- python train.py
  fallow compat gpuselect --help"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow compat`."""
    made.usage = "fallow compat NAME [WORDS OF THE TOOL]"
    made.add_argument("name", nargs="?", metavar="NAME", help=f"the tool: {', '.join(TOOLS)}")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Run the older tool's command line with fallow."""
    home = TOOLS.get(args.name)
    if home is None:
        way = (args.name and did_you_mean(args.name, TOOLS)) or f"there are {', '.join(TOOLS)}"
        raise WrongUsage(f"there is no older tool {args.name!r}" if args.name else "NAME is missing", way)
    tool = importlib.import_module(f"fallow.compat.{home}")
    with interruptible():
        code: int = tool.main(args.command or [], world, voice.note)
    return code
