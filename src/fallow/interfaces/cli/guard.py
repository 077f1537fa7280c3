"""`fallow guard`: wait until GPUs are in use, then until they are idle, then act."""

import argparse
from functools import partial

from fallow.core.actions import EndGuard, parse_action
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.units import count, duration_for_people, duration_s, ratio, some_ratio, span_s
from fallow.engine.guard.guard import GuardLoop
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, chooses, several, takes
from fallow.interfaces.signals import interruptible
from fallow.interfaces.stderr import Stderr
from fallow.policies.guard import Across, GuardRules

ABOUT = """\
Wait until GPUs are in use, then until they are idle, then act once: each action
in the order given. Before the machine goes down, everybody who is logged in
gets a message, and can prevent it with `fallow protect`."""
EXAMPLES = """\
  fallow guard --idle-for 30m --action shutdown
  fallow guard --idle-for 1h --unless users --unless cpu:20 --action shutdown
  fallow guard --action notify:ntfy://my-topic --action reboot
  fallow guard --gpus 0-3 --attach 12345 --action signal:INT
  fallow guard && ./upload-results.sh
  fallow guard --dry-run --idle-for 10m --action shutdown"""
_EVERY_S = 1.0
_MISSED_LOOKS = 3


def add_options(made: Parser) -> None:
    """Add the options of `fallow guard`."""
    add = partial(takes, made)
    add("--gpus LIST", str, "watch only these GPUs (default: all)")
    add("--arm-above P", ratio, "utilization in per cent above which a GPU is in use (default: 10)", 0.1)
    add("--arm-for D", span_s, "how long GPUs must be in use before the guard is armed (default: 60s)", 60.0)
    add("--idle-below P", some_ratio, "utilization in per cent below which a GPU is idle (default: 5)", 0.05)
    add("--idle-for D", span_s, "how long GPUs must be idle before the guard acts (default: 30m)", 1800.0)
    chooses(
        made, "--across", Across, "whether all GPUs, any of them, or their mean must be idle (default: all)", "all"
    )
    several(
        made,
        "--unless COND",
        "do not act while this is so: users (somebody typed in the last 5m; users:10m), cpu:P (more CPU "
        "use, in per cent) or process:NAME (it runs)",
    )
    add("--attach PID", count, "the process that --action signal signals")
    several(
        made,
        "--action ACTION",
        "what to do: end (default), signal[:NAME], run:CMD, notify:URL, shutdown or reboot",
    )
    add("--countdown D", duration_s, "how long people have to prevent a shutdown or reboot (default: 60s)", 60.0)
    made.add_argument("--dry-run", action="store_true", help="carry out no action, only print what it would be")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Run the guard until it has acted."""
    actions = tuple(parse_action(text) for text in args.action) or (EndGuard(),)
    rules = GuardRules(
        actions=actions,
        arm_above=args.arm_above,
        arm_for_s=args.arm_for,
        idle_below=args.idle_below,
        idle_for_s=args.idle_for,
        across=Across(args.across),
        countdown_s=args.countdown,
        longest_gap_s=_EVERY_S * _MISSED_LOOKS,
    )
    _refuse_contradictions(args, rules)
    with open_run(world, voice.note, dry_run=args.dry_run) as run_:
        loop = GuardLoop(run_, rules, gpus=args.gpus, attach=args.attach, unless=args.unless)
        voice.note(f"guarding; arms after {duration_for_people(args.arm_for)} of work above {args.arm_above:.0%}")
        voice.never_wait()
        with interruptible():
            try:
                loop.run(_EVERY_S)
            finally:
                voice.finish()
    if loop.given_up:
        raise FallowError(f"it has acted, but could not {', nor '.join(loop.given_up)}")
    return 0


def _refuse_contradictions(args: argparse.Namespace, rules: GuardRules) -> None:
    """Raise WrongUsage for what the config refuses too: it could turn off a machine that works."""
    for found in rules.check():
        given = f"{args.idle_below * 100:g}" if found.place is None else args.action[found.place]
        remedy = found.remedy
        if found.rests_on is not None:
            remedy = remedy.replace(found.rests_on, _option(found.rests_on))
        raise WrongUsage(f"{_option(found.key)} {given}: {found.sentence}", remedy)


def _option(key: str) -> str:
    return f"--{key.replace('_', '-')}"
