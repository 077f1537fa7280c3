"""`fallow fill`: run a command on idle GPUs, and leave them when others need them."""

import argparse
import os
from functools import partial

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.fillers import Yield
from fallow.core.units import duration_for_people, duration_s, hours, span_s
from fallow.engine.allocate.usable_gpus import gpus_to_fill
from fallow.engine.fill.filler import FillerSpec, check_command
from fallow.engine.fill.loop import fill_loop
from fallow.engine.history.run import open_run
from fallow.engine.machine.presence import PresenceRules, demand_user_idle
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, chooses, several, takes
from fallow.interfaces.signals import interruptible, unstoppable
from fallow.interfaces.stderr import Stderr
from fallow.policies.fill import FillRules
from fallow.readers.accounts import is_user, names

ABOUT = """\
Run CMD on GPUs that nobody uses. It leaves a GPU at the first sign of anybody
else: a process on the GPU, a claim, a person at a terminal, a protection. CMD
runs with a low CPU priority and ends with fallow.
{gpu} and {uuid} in CMD and FILE are replaced."""
EXAMPLES = """\
  fallow fill -- ./background.sh
  fallow fill --yield kill -- python sweep.py --gpu {gpu}
  fallow fill --yield suspend -- python long_run.py
  fallow fill --between 20:00-07:00 --log {gpu}.log -- ./miner
  fallow fill -- fallow burn"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow fill`."""
    made.usage = "fallow fill [OPTIONS] -- CMD ..."
    add = partial(takes, made)
    add("--gpus LIST", str, "fill only these GPUs (default: all)")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--each", action="store_true", help="run one CMD on each GPU (default)")
    how.add_argument("--together", action="store_true", help="run one CMD on all GPUs, while all of them are idle")
    add("--idle-for D", span_s, "how long a GPU must be idle before CMD starts (default: 30s)", 30.0)
    chooses(
        made,
        "--yield",
        Yield,
        "how CMD leaves: term sends SIGTERM, then SIGKILL; kill sends SIGKILL; suspend stops it and takes "
        "its memory off the GPU, or does as term where that cannot be (default: term)",
        "term",
        dest="manner",
    )
    add("--grace D", duration_s, "how long after SIGTERM CMD gets SIGKILL (default: 2s)", 2.0)
    made.add_argument("--eager", action="store_true", help="leave for any process that opens the GPU's device file")
    several(made, "--ignore NAME", "a program on the GPU that is no reason to leave")
    chooses(
        made, "--users", ("yield", "ignore"), "whether to leave for people at a terminal (default: yield)", "yield"
    )
    add(
        "--user-idle D",
        span_s,
        "how long after their last key people count as away (default: 5m, at least 10s)",
        300.0,
    )
    several(made, "--ignore-user NAME", "a user at a terminal who is no reason to leave")
    add("--between HH:MM-HH:MM", hours, "run CMD only at these hours")
    add("--log FILE", str, "append CMD's output to FILE (default: print it here)")
    add("--cwd DIR", str, "run CMD in this folder")
    made.add_argument("--dry-run", action="store_true", help="start nothing, only print what would be done")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Run fillers until fallow is interrupted."""
    if not args.command:
        raise WrongUsage("fill needs a command; write it behind --, as in: fallow fill -- CMD ...")
    spec = _spec(args)
    check_command(spec, world.environ)
    gpus = gpus_to_fill(world, args.gpus, voice.note)
    places = [gpus] if args.together else [(gpu,) for gpu in gpus]
    with open_run(world, voice.note, dry_run=args.dry_run) as run_:
        unstoppable()
        voice.never_wait()
        loop = fill_loop(run_, [(spec, place) for place in places])
        would = "would fill" if args.dry_run else "filling"
        many = "1 GPU" if len(gpus) == 1 else f"{len(gpus)} GPUs"
        voice.note(f"{would} {many} with work after {duration_for_people(args.idle_for)} of quiet")
        with interruptible():
            try:
                loop.run()
            finally:
                voice.finish()
    return 0


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise WrongUsage("this folder is not there any more; name the log from /") from None


def _spec(args: argparse.Namespace) -> FillerSpec:
    rules = FillRules(args.idle_for, Yield(args.manner), args.grace)
    if args.users == "yield":
        demand_user_idle(args.user_idle)
    for name in args.ignore_user:
        if not (name.isascii() and name.isdigit()) and not is_user(name):
            raise WrongUsage(f"there is no user {name!r} on this machine", did_you_mean(name, names()))
    presence = PresenceRules(args.users == "yield", args.user_idle, tuple(args.ignore_user), args.between)
    return FillerSpec(
        tuple(args.command),
        rules,
        presence,
        name="dry run of a filler" if args.dry_run else "filler",
        eager=args.eager,
        ignore=tuple(args.ignore),
        log=args.log if args.log is None or os.path.isabs(args.log) else os.path.join(_here(), args.log),
        cwd=args.cwd,
    )
