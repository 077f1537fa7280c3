"""`fallow status`: show each GPU, its activity, for how long, and who holds it."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from fallow.core.board import stops_in_s
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu import labels_of
from fallow.core.gpu_status import GpuStatus, Outlook, Shown, Status
from fallow.core.owner import Owner
from fallow.core.protections import Affected, AffectedProcess, Protection, protection_on, with_its_end
from fallow.core.selection import select, visible
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.machine.observe import look_once, watch
from fallow.engine.machine.world import World
from fallow.interfaces.cli.on_options import add_on, refuse_without_on
from fallow.interfaces.cli.options import Parser, add_alone, every_s, takes
from fallow.interfaces.stderr import Stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.machine.daemon_client import DaemonClient

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
  fallow status --fleet
  fallow status --on gpu1,gpu2
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
    made.add_argument("--fleet", action="store_true", help="show the hosts that the daemon asks, in a line each")
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
    made.add_argument("--watch", action="store_true", help="show it again and again, until Ctrl-C")
    takes(made, "--every D", every_s, "how often --watch looks (default: 1s; with --cluster 5s)")
    add_alone(made)
    add_on(made, "show the GPUs of these hosts")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon or read the GPUs, and print the result; with --on, those of other hosts."""
    if args.on is not None:
        from fallow.interfaces.cli.status_on import run_on

        return run_on(args, world)
    refuse_without_on(args)
    if args.every is not None and not args.watch:
        raise WrongUsage("--every has no effect without --watch", "add --watch")
    if args.fleet or args.cluster:
        _refuse_line_options(args)
    if args.fleet:
        from fallow.interfaces.cli import fleet_status

        return fleet_status.run(args, world, voice)
    if args.cluster:
        from fallow.interfaces.cli import cluster_status

        return cluster_status.run(args, world, voice)
    args.every = 1.0 if args.every is None else args.every
    elsewhere = world.proc.whose_pids()
    if elsewhere is not None:
        voice.note(f"the pids shown are of another pid namespace: {elsewhere}")
    looks = _looks(args, world, voice)
    if args.watch and not args.json and sys.stdout.isatty():
        from fallow.interfaces.signals import interruptible

        with interruptible():
            _view(args).show_live(_with_outlooks(look, world) for look in looks)
        return 0
    for look in looks:
        if args.json:
            print(_as_json(look, world, one_line=args.watch), flush=True)
        else:
            _view(args).show(_with_outlooks(look, world))
        if not args.watch:
            if args.long and not args.json:
                _show_protections(look, world)
            break
    return 0


def chosen_lines(args: argparse.Namespace, status: Status, user: str) -> tuple[tuple[GpuStatus, ...], str | None]:
    """Return the GPUs that the options mean, in order, and what to say about the others."""
    if not (args.mine or args.idle or args.sort):
        return status.gpus, None
    from fallow.interfaces.cli.status_choice import chosen

    return chosen(status.gpus, user, mine=args.mine, idle=args.idle, sort=args.sort)


def show_lines(args: argparse.Namespace, shown: Shown) -> None:
    """Print the lines, or with --long everything."""
    _view(args).show(shown)


def _view(args: argparse.Namespace) -> ModuleType:
    if args.long:
        from fallow.interfaces.render import status_long

        return status_long
    from fallow.interfaces.render import status_lines

    return status_lines


def _refuse_line_options(args: argparse.Namespace) -> None:
    other = "--fleet" if args.fleet else "--cluster"
    for option in ("long", "idle", "sort"):
        if getattr(args, option):
            raise WrongUsage(f"--{option} does not go with {other}", "leave one of them out")


@value
class _Look:
    """What is to be shown, and the daemon that told it, if one did."""

    shown: Shown
    daemon: "DaemonClient | None"


def _looks(args: argparse.Namespace, world: World, voice: Stderr) -> Iterator[_Look]:
    for status, daemon in _statuses(args, world, voice):
        named = status
        if args.gpus is not None:
            named = status.among(frozenset(gpu.label for gpu in select(args.gpus, status.gpus)))
        allowed = frozenset(gpu.label for gpu in visible(world.visible_devices, status.gpus))
        lines, remark = chosen_lines(args, named, world.user if args.mine else "")
        to_you = named.among(allowed).available
        yield _Look(Shown(named, world.visible_devices, to_you, lines, {}, remark), daemon)


def _with_outlooks(look: _Look, world: World) -> Shown:
    """Return what is shown with what rules and protections mean for each GPU."""
    protections, wall_s = _protections(look, world), world.clock.wall_s()
    counting = (look.daemon and look.daemon.counting()) or ()
    outlooks = {
        gpu.label: Outlook(stops_in_s(gpu.uuid, counting), _protected_s(gpu, protections, wall_s))
        for gpu in look.shown.lines
    }
    return replace(look.shown, outlooks=outlooks)


def _protections(look: _Look, world: World) -> Sequence[Protection] | Unknown:
    from fallow.engine.jobs.protections import active_protections

    try:
        return active_protections(world, look.daemon)
    except FallowError as error:
        return Unknown(str(error))


def _protected_s(
    gpu: GpuStatus, protections: Sequence[Protection] | Unknown, wall_s: float
) -> float | Unknown | None:
    """Return for how long the GPU or a process on it is protected; None if it is not."""
    from fallow.engine.jobs.protections import uuids_with_cards

    if isinstance(protections, Unknown):
        return protections
    holders = () if isinstance(gpu.holders, Unknown) else gpu.holders
    processes = tuple(AffectedProcess(each.pid, each.birth, each.user, each.command) for each in holders)
    found = protection_on(Affected(uuids_with_cards([gpu]), processes), protections, wall_s)
    return None if found is None else found.until_wall_s - wall_s


def _show_protections(look: _Look, world: World) -> None:
    """Print below the table the protections in force on these GPUs."""
    from fallow.engine.jobs.protections import protections_on

    gpus = look.shown.lines
    for protection in protections_on(gpus, world, look.daemon):
        print(with_its_end(protection, world.clock.wall_s(), labels_of(gpus)))


def _statuses(
    args: argparse.Namespace, world: World, voice: Stderr
) -> "Iterator[tuple[Status, DaemonClient | None]]":
    """Yield the daemon's status for as long as it answers; then what this process reads itself."""
    daemon = None if args.alone else world.daemon(voice.detail)
    if daemon is not None:
        while (status := daemon.status()) is not None:
            yield status, daemon
            world.clock.sleep(args.every)
    if args.watch:
        voice.detail(f"looking every {args.every:g} s")
        yield from ((_with_parked(world, status), None) for status in watch(world, args.every))
    voice.detail("looking once")
    yield _with_parked(world, _with_names(world, look_once(world))), None


def _with_parked(world: World, status: Status) -> Status:
    """Return the status with the jobs that a daemon of this user has parked, and that live."""
    from fallow.engine.park.record import ParkRecord

    parked = ParkRecord(world).read()
    return replace(status, parked=parked) if parked else status


def _with_names(world: World, status: Status) -> Status:
    """Return the status with the names of notebooks and containers; loaded only where there are any."""
    holders = (holder for gpu in status.gpus if not isinstance(gpu.holders, Unknown) for holder in gpu.holders)
    if not any(isinstance(holder.owner, Owner) and holder.owner.is_asked for holder in holders):
        return status
    from fallow.engine.owners.names import name_now

    return name_now(world, status)


def _as_json(look: _Look, world: World, *, one_line: bool) -> str:
    import json

    from fallow.interfaces.render import as_json

    shown, status = look.shown, look.shown.status
    rules = None if look.daemon is None else look.daemon.counting()
    facts = as_json.status(status, _protections(look, world), rules or ())
    facts = {**as_json.only(facts, status, shown.lines), "available_to_you": shown.to_you}
    return json.dumps(facts) if one_line else as_json.as_text(facts)
