"""`fallow protect`: keep rules away from a GPU, process or user until a given time."""

import argparse
from collections.abc import Sequence
from functools import partial

from fallow.core.errors import WrongUsage
from fallow.core.protections import Protection, with_its_end
from fallow.core.units import is_number, span_s
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.protect import in_force, labels_for, left_alone, place, release
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_json, takes
from fallow.interfaces.render.as_json import as_text, protections
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Protect a GPU, a process, a user, the machine or a job of a cluster for some
time: fallow stops, signals or powers off nothing that is protected. A
protection reserves no GPU. It ends by itself, or when its owner or root
releases it."""
EXAMPLES = """\
  fallow protect --for 2h --why "debugging"     the whole machine
  fallow protect 3 --for 30m                    GPU 3
  fallow protect pid:12345 --for 1d             a process
  fallow protect user:$USER --for 1h            everything that you run
  fallow protect slurm:1234 --for 2h            a job of a cluster
  fallow protect --list
  fallow protect --release 482913775            or its first three digits"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow protect`."""
    made.usage = "fallow protect [OPTIONS] [SUBJECT]"
    add = partial(takes, made)
    made.add_argument(
        "subject",
        nargs="?",
        metavar="SUBJECT",
        help="what to protect: a GPU, pid:PID, user:NAME or all (default: all); a bare number is a GPU; of a "
        "cluster slurm:ID, deployment:NAMESPACE/NAME, pod:NAMESPACE/NAME or node:NAME",
    )
    add("--for D", span_s, "how long the protection lasts", dest="duration")
    add("--why TEXT", str, "the reason, shown to everybody", "")
    made.add_argument("--list", action="store_true", help="print the protections that are in force")
    add("--release ID", _id, "end this protection now; the first three digits of its id are enough")
    add_json(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Place, list or release a protection."""
    if (args.release is not None or args.list) and (args.subject is not None or args.duration is not None):
        raise WrongUsage("--list and --release cannot be combined with SUBJECT or --for")
    asker = Asker(world, voice.note, voice.detail)
    if args.release is not None:
        voice.note(f"protection {release(asker, args.release)} is released")
        return 0
    if args.list:
        found = in_force(asker)
        return _show(asker, found, () if args.json else left_alone(asker, found), as_json=args.json)
    if args.duration is None:
        import shlex

        subject = "" if args.subject is None else f"{shlex.quote(args.subject)} "
        raise WrongUsage("it is not said for how long", f"write it as: fallow protect {subject}--for 2h")
    return _show(asker, [place(asker, args.subject or "all", args.duration, args.why)], (), as_json=args.json)


def _id(text: str) -> int:
    """Return the id of a protection, or its first digits."""
    if not is_number(text.strip()) or int(text) < 1:
        raise WrongUsage(f"{text!r} is not an id of a protection", "fallow protect --list shows them")
    return int(text)


def _show(asker: Asker, shown: Sequence[Protection], others: Sequence[str], *, as_json: bool) -> int:
    """Print protections; `others`: sentences on jobs that something else protects."""
    if as_json:
        print(as_text(protections(shown)))
        return 0
    labels, now_s = labels_for(asker, shown), asker.world.clock.wall_s()
    for protection in shown:
        print(with_its_end(protection, now_s, labels))
    for sentence in others:
        print(sentence)
    if not (shown or others):
        print("nothing is protected")
    return 0
