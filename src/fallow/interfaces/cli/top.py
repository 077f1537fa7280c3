"""`fallow top`: all GPUs and the jobs on them, live; with keys to protect, stop and explain."""

import argparse
import sys

from fallow.core.activity import Activity
from fallow.core.errors import WrongUsage
from fallow.core.selection import select
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, chooses, every_s, several, takes
from fallow.interfaces.stderr import Stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.interfaces.cli.top_commands import TopCommands
    from fallow.interfaces.top.app import Top

ABOUT = """\
Show all GPUs and the jobs on them, live: which you can have now, what each did
in the last minutes, whose job is on it, who started that, and when a rule stops
it. Keys: p protects, s stops (after asking), w explains, m shows why your jobs
were stopped, u who wasted most this week, Enter shows details, / filters,
o sorts, ? shows all keys; the mouse works too. It asks the daemon if one runs,
and else reads the GPUs itself.

exit codes: 0 ended by q or Ctrl-C; 2 no terminal, as in a pipe"""
EXAMPLES = """\
  fallow top
  fallow top 0-7 --sort utilization
  fallow top --user $USER
  fallow top --activity idle --activity stuck
  fallow status --watch              for pipes and for simple terminals"""
SORTS = ("index", "activity", "for", "utilization", "memory", "power", "temp", "user", "stops")
_SIMPLE = frozenset(("", "dumb", "unknown"))


def add_options(made: Parser) -> None:
    """Add the options of `fallow top`."""
    made.usage = "fallow top [OPTIONS] [GPUS]"
    made.add_argument("gpus", nargs="?", metavar="GPUS", help="show only these: 0,2 or 0-3, UUIDs or how they begin")
    takes(made, "--every D", every_s, "how often it looks (default: 1s)", 1.0)
    several(made, "--user NAME", "show only GPUs and jobs of this user")
    several(made, "--activity WORD", "show only GPUs that are so: free, filled, busy, idle, stuck or unknown")
    chooses(made, "--sort", SORTS, "the order of the GPUs at first, by a column (default: index)", "index")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Show the screen until a person ends it."""
    if not _has_screen(world.environ.get("TERM", "")):
        raise WrongUsage("there is no terminal to draw on", "use fallow status --watch")
    app, commands = make(args, world)
    ended_by = app.run()
    commands.tell_interrupted(voice)
    if ended_by:
        from fallow.actuators.process.signals import die_of

        die_of(ended_by)
    return 0


def make(args: argparse.Namespace, world: World) -> "tuple[Top, TopCommands]":
    """Take the first look, so that what is wrong is said before the screen changes; return the screen."""
    from fallow.interfaces.cli.top_commands import TopCommands
    from fallow.interfaces.top.app import Top
    from fallow.interfaces.top.look import Source
    from fallow.interfaces.top.rows import Filter

    wrong = [word for word in args.activity if word not in list(Activity)]
    if wrong:
        raise WrongUsage(f"{wrong[0]!r} is no activity", f"there are {', '.join(Activity)}")
    source = Source(world, args.every)
    first = source.look()
    if args.gpus is not None:
        select(args.gpus, first.status.gpus)
    commands = TopCommands(world)
    only = Filter(frozenset(args.user), frozenset(map(Activity, args.activity)))
    app = Top(
        source,
        commands,
        world.clock,
        first,
        every_s=args.every,
        gpus=args.gpus,
        only=only,
        sort=args.sort,
        visible_devices=world.visible_devices,
    )
    return app, commands


def _has_screen(kind: str) -> bool:
    """Return whether a person sits in front of a terminal that can be drawn on."""
    streams = (sys.stdin, sys.stdout)
    return kind not in _SIMPLE and all(stream is not None and stream.isatty() for stream in streams)
