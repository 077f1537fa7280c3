"""`fallow protect`: keep rules away from a GPU, process or user until a given time."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fallow.core.api import VERSION
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu import labels_of
from fallow.core.ports import Depth
from fallow.core.protections import ClusterPart, OneClusterJob, OneGpu, Protection, reason_of, with_its_end
from fallow.core.units import is_number, span_s
from fallow.engine.allocate.protection_target import target_of
from fallow.engine.jobs.protections import active_protections
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_alone, add_json, takes
from fallow.interfaces.render.as_json import as_text, protection_facts
from fallow.interfaces.stderr import Stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.machine.daemon_client import DaemonClient

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

_LONGEST_S = 366 * 86400.0
_SHORTEST_ID, _WHOLE_ID = 3, 9


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
    add_alone(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Place, list or release a protection."""
    if (args.release is not None or args.list) and (args.subject is not None or args.duration is not None):
        raise WrongUsage("--list and --release cannot be combined with SUBJECT or --for")
    daemon = None if args.alone else world.daemon(voice.detail)
    if args.release is not None:
        number = _meant(args.release, lambda: active_protections(world, daemon))
        if daemon is None or not daemon.release_protection(number):
            world.protections.release(number)
        voice.note(f"protection {number} is released")
        return 0
    if args.list:
        listed = active_protections(world, daemon)
        return _show(world, listed, labels_for(world, daemon, listed), as_json=args.json)
    if args.duration is None:
        import shlex

        subject = "" if args.subject is None else f"{shlex.quote(args.subject)} "
        raise WrongUsage("it is not said for how long", f"write it as: fallow protect {subject}--for 2h")
    placed = place(args.subject or "all", args.duration, args.why, world, voice, daemon)
    return _show(world, [placed], labels_for(world, daemon, [placed]), as_json=args.json)


def place(
    subject: str, for_s: float, why: str, world: World, voice: Stderr, daemon: "DaemonClient | None"
) -> Protection:
    """Protect a subject from now on, through the daemon if there is one."""
    if not 0 < for_s <= _LONGEST_S:
        raise WrongUsage("a protection lasts for some time, and at most a year", "write it as --for 2h")
    status = None if daemon is None else daemon.status()
    target = target_of(subject, world, among=None if status is None else status.gpus)
    if isinstance(target, OneClusterJob | ClusterPart):
        from fallow.interfaces.cli.cluster_protect import check

        check(target, world, voice, daemon)
    until_s = world.clock.wall_s() + for_s
    placed = None if daemon is None or status is None else daemon.protect(target, for_s, reason_of(why))
    if placed is not None:
        return placed
    world.protections.demand_room(os.geteuid(), world.clock.wall_s())
    number = world.protections.place(target, until_s, why)
    return Protection(number, target, until_s, reason_of(why), world.user)


def _id(text: str) -> int:
    """Return the id of a protection, or its first digits."""
    if not is_number(text.strip()) or int(text) < 1:
        raise WrongUsage(f"{text!r} is not an id of a protection", "fallow protect --list shows them")
    return int(text)


def _meant(number: int, listed: Callable[[], Sequence[Protection]]) -> int:
    """Return the id that begins with these digits, if only one does: ids are long, because none is used twice."""
    digits = str(number)
    if len(digits) >= _WHOLE_ID:
        return number
    ids = {protection.id for protection in listed() if str(protection.id).startswith(digits)}
    if number in ids:
        return number
    if len(digits) < _SHORTEST_ID:
        raise WrongUsage(f"there is no protection {digits}; write the first {_SHORTEST_ID} digits of its id, or more")
    if not ids:
        return number
    if len(ids) > 1:
        raise WrongUsage(f"the ids of {len(ids)} protections begin with {digits}; write more of it")
    return ids.pop()


def labels_for(world: World, daemon: "DaemonClient | None", protections: Sequence[Protection]) -> dict[str, str]:
    """Return the labels of the GPUs, if one of them is protected; none if the GPUs cannot be read now."""
    if not any(isinstance(each.target, OneGpu) for each in protections):
        return {}
    status = None if daemon is None else daemon.status()
    try:
        return labels_of(world.gpu_reader.look(Depth.HOLDERS).gpus if status is None else status.gpus)
    except FallowError:
        return {}


def _show(world: World, protections: Sequence[Protection], labels: Mapping[str, str], *, as_json: bool) -> int:
    now_s = world.clock.wall_s()
    if as_json:
        listed = [protection_facts(protection) for protection in protections]
        print(as_text({"version": VERSION, "protections": listed}))
        return 0
    for protection in protections:
        print(with_its_end(protection, now_s, labels))
    if not protections:
        print("nothing is protected")
    return 0
