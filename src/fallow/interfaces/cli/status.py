"""`fallow status`: show each GPU, its activity, for how long, and who holds it."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from fallow.core.board import outlook_on
from fallow.core.errors import WrongUsage
from fallow.core.gpu import labels_of
from fallow.core.gpu_status import GpuStatus, Shown, Status
from fallow.core.protections import Protection, protection_on, with_its_end
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.status import Look, looks, protections_at, shown
from fallow.engine.machine.world import World
from fallow.interfaces.cli.on_options import add_on
from fallow.interfaces.cli.options import Parser, every_s, typed
from fallow.interfaces.stderr import Stderr

SORTS = ("index", "memory", "utilization", "idle", "user")
ABOUT = """\
Show how many GPUs are available, and in a line for each GPU who holds it and
what it does: free, filled (only work that leaves when the GPU is needed), busy,
idle (held, nothing runs), stuck (looks busy, does nothing) or unknown. What
does not fit the screen is left out; -l shows everything. With --cluster show
the cluster that `fallow up` watches: what is available now, and which jobs hold
GPUs that they do not use."""
EXAMPLES = """\
  fallow status
  fallow status --watch 0-3
  fallow status --mine                     the GPUs with a job or claim of yours
  fallow status --idle --sort idle         held and unused, longest first
  fallow status --cluster
  fallow status --cluster --mine           or slurm:1234, node:n1, partition:gpu
  fallow status --on gpu1,gpu2 --watch
  fallow status --json | jq '.gpus[] | select(.activity == "idle")'"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow status`."""
    made.usage = "fallow status [OPTIONS] [GPUS]"
    made.add_argument(
        "gpus",
        nargs="?",
        metavar="GPUS",
        help="show only these: 0,2 or 0-3, UUIDs or how they begin; with --cluster a job, node:NAME, "
        "partition:NAME, account:NAME, namespace:NAME or user:NAME",
    )
    made.add_argument("--cluster", action="store_true", help="show the cluster, the jobs that waste most GPUs first")
    made.add_argument(
        "-l", "--long", action="store_true", help="show everything: all that hold a GPU, and why it is judged so"
    )
    made.add_argument(
        "--mine",
        action="store_true",
        help="show only GPUs on which you have a job or a claim; with --cluster, your jobs",
    )
    made.add_argument("--idle", action="store_true", help="show only GPUs that are held and unused: idle or stuck")
    made.add_argument(
        "--sort",
        choices=SORTS,
        help="order of the lines: index, memory (most used first), utilization, idle (longest first) or user",
    )
    made.add_argument("--json", action="store_true", help="print the result as JSON; with --watch one object a line")
    made.add_argument(
        "--watch",
        nargs="?",
        const=0.0,
        type=_watch_s,
        metavar="D",
        help="show it again and again, until Ctrl-C; --watch=D every so often (default: 1s; with --cluster 5s, with "
        "--on 10s)",
    )
    add_on(made, "show the GPUs of these hosts")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon or read the GPUs, and print the result; with --on, those of other hosts."""
    if args.on is not None:
        from fallow.interfaces.cli.status_on import run_on

        return run_on(args, world)
    if args.cluster:
        _refuse_line_options(args)
        from fallow.interfaces.cli import cluster_status

        return cluster_status.run(args, world, voice)
    elsewhere = world.proc.whose_pids()
    if elsewhere is not None:
        voice.note(f"the pids shown are of another pid namespace: {elsewhere}")
    looks = _looks(args, world, voice)
    watches = args.watch is not None
    if watches and not args.json and sys.stdout.isatty():
        from fallow.interfaces.signals import interruptible

        with interruptible():
            view_of(args).show_live([_with_outlooks(look, world)] for look in looks)
        return 0
    for look in looks:
        if args.json:
            print(_as_json(look, world, one_line=watches), flush=True)
        else:
            view_of(args).show([_with_outlooks(look, world)])
        if not watches:
            if args.long and not args.json:
                _show_protections(look, world)
            break
    return 0


def _watch_s(text: str) -> float:
    """Return how often to look; 0 for the usual time, where --watch has no value."""
    return typed(every_s)(text) if text else 0.0


def chosen_lines(args: argparse.Namespace, status: Status, user: str) -> tuple[tuple[GpuStatus, ...], str | None]:
    """Return the GPUs that the options mean, in order, and what to say about the others."""
    if not (args.mine or args.idle or args.sort):
        return status.gpus, None
    from fallow.interfaces.cli.status_choice import chosen

    return chosen(status.gpus, user, mine=args.mine, idle=args.idle, sort=args.sort)


def view_of(args: argparse.Namespace) -> ModuleType:
    """Return what prints the lines, or with --long everything."""
    if args.long:
        from fallow.interfaces.render import status_long

        return status_long
    from fallow.interfaces.render import status_lines

    return status_lines


def _refuse_line_options(args: argparse.Namespace) -> None:
    for option in ("long", "idle", "sort"):
        if getattr(args, option):
            raise WrongUsage(f"--{option} does not go with --cluster", "leave one of them out")


@value
class _Look:
    """What is to be shown, and the look that it is of."""

    shown: Shown
    look: Look


def _looks(args: argparse.Namespace, world: World, voice: Stderr) -> Iterator[_Look]:
    asker = Asker(world, voice.note, voice.detail)
    for look in looks(asker, None if args.watch is None else args.watch or 1.0):
        named = shown(look, args.gpus, world)
        lines, remark = chosen_lines(args, named.status, world.user if args.mine else "")
        yield _Look(replace(named, lines=lines, remark=remark), look)


def _with_outlooks(look: _Look, world: World) -> Shown:
    """Return what is shown with what rules and protections mean for each GPU."""
    protections, wall_s = protections_at(look.look, world), world.clock.wall_s()
    daemon = look.look.daemon
    counting = (daemon and daemon.counting()) or ()
    outlooks = {
        gpu.label: outlook_on(gpu.uuid, counting, _protected_s(gpu, protections, wall_s)) for gpu in look.shown.lines
    }
    return replace(look.shown, outlooks=outlooks)


def _protected_s(
    gpu: GpuStatus, protections: Sequence[Protection] | Unknown, wall_s: float
) -> float | Unknown | None:
    """Return for how long the GPU or a process on it is protected; None if it is not."""
    from fallow.engine.jobs.protections import affected_by

    if isinstance(protections, Unknown):
        return protections
    found = protection_on(affected_by([gpu]), protections, wall_s)
    return None if found is None else found.until_wall_s - wall_s


def _show_protections(look: _Look, world: World) -> None:
    """Print below the table the protections in force on these GPUs."""
    from fallow.engine.jobs.protections import protections_on

    gpus = look.shown.lines
    for protection in protections_on(gpus, world, look.look.daemon):
        print(with_its_end(protection, world.clock.wall_s(), labels_of(gpus)))


def _as_json(look: _Look, world: World, *, one_line: bool) -> str:
    import json

    from fallow.interfaces.render import as_json

    daemon = look.look.daemon
    rules = None if daemon is None else daemon.counting()
    facts = as_json.shown(look.shown, protections_at(look.look, world), rules or ())
    return json.dumps(facts) if one_line else as_json.as_text(facts)
