"""`fallow hold`: leave this alone until then."""

import argparse
import json
from math import inf

from fallow.core.errors import WrongUsage
from fallow.core.holds import Hold
from fallow.core.units import count, duration_for_people, duration_s
from fallow.engine.subjects import target_of
from fallow.engine.world import World
from fallow.faces.as_json import hold_facts
from fallow.faces.cli.options import Parser, add_alone, typed
from fallow.faces.voice import Voice

EXAMPLES = """\
  fallow hold --for 2h --why "debugging"        the whole machine
  fallow hold 3 --for 30m                       GPU 3
  fallow hold pid:12345 --for 1d                a process
  fallow hold user:$USER --for 1h               all that you run
  fallow hold --list
  fallow hold --release 1"""

_LONGEST_S = 366 * 86400.0


def parser(parents: list[argparse.ArgumentParser]) -> Parser:
    """The options of hold."""
    made = Parser(
        "fallow hold",
        "Place a hold: whatever would stop, signal or turn off what it covers leaves it alone until then. A hold\n"
        "always wins, ends by itself, and can be released by whoever placed it, or root.",
        EXAMPLES,
        parents,
    )
    made.add_argument(
        "subject",
        nargs="?",
        metavar="SUBJECT",
        help="all (default), a GPU, pid:PID, user:NAME; a bare number is a GPU",
    )
    made.add_argument("--for", dest="duration", type=typed(duration_s), metavar="D", help="for how long")
    made.add_argument("--why", default="", metavar="TEXT", help="the reason, for those who wonder")
    made.add_argument("--list", action="store_true", help="show the holds that last")
    made.add_argument("--release", type=typed(count), metavar="ID", help="end a hold before its time")
    made.add_argument("--json", action="store_true", help="print JSON")
    add_alone(made)
    return made


def run(args: argparse.Namespace, world: World, voice: Voice) -> int:
    """Place, list or release."""
    if (args.release is not None or args.list) and (args.subject is not None or args.duration is not None):
        raise WrongUsage("--list and --release take no subject and no --for")
    daemon = None if args.alone else world.daemon(voice.detail)
    if args.release is not None:
        if daemon is None or not daemon.release_hold(args.release):
            world.holds.release(args.release)
        voice.note(f"hold {args.release} is released")
        return 0
    if args.list:
        listed = None if daemon is None else daemon.holds()
        return _show(world, world.holds.active(world.clock.wall_s()) if listed is None else listed, as_json=args.json)
    if args.duration is None or not 0 < args.duration <= _LONGEST_S:
        raise WrongUsage("for how long? write: fallow hold [SUBJECT] --for 2h; at most a year")
    sight = None if daemon is None else daemon.sight()
    target = target_of(args.subject or "all", world, among=None if sight is None else sight.gpus)
    until_s = world.clock.wall_s() + args.duration
    placed = None if daemon is None or sight is None else daemon.place_hold(target, until_s, args.why)
    if placed is not None:
        return _show(world, [placed], as_json=args.json)
    number = world.holds.place(target, until_s, args.why)
    ours = [hold for hold in world.holds.active(world.clock.wall_s()) if hold.id == number]
    return _show(world, ours, as_json=args.json)


def _show(world: World, holds: list[Hold], *, as_json: bool) -> int:
    now_s = world.clock.wall_s()
    if as_json:
        print(json.dumps([hold_facts(hold) for hold in holds]))
        return 0
    for hold in holds:
        left_s = hold.until_wall_s - now_s
        lasts = "until it is released" if left_s == inf else f"for another {duration_for_people(round(left_s))}"
        print(f"{hold}; {lasts}")
    if not holds:
        print("nothing is held")
    return 0
