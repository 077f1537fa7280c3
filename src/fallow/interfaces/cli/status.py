"""`fallow status`: show each GPU, its activity, for how long, and who holds it."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence

from fallow.core.board import Counting
from fallow.core.errors import FallowError, WrongUsage
from fallow.core.gpu import labels_of
from fallow.core.gpu_status import Shown, Status
from fallow.core.owner import Owner
from fallow.core.protections import Protection, with_its_end
from fallow.core.selection import select, visible
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.machine.observe import look_once, watch
from fallow.engine.machine.world import World
from fallow.interfaces.cli.on_options import add_on, refuse_without_on
from fallow.interfaces.cli.options import Parser, add_alone, every_s, takes
from fallow.interfaces.render import as_json
from fallow.interfaces.stderr import Stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.machine.daemon_client import DaemonClient

ABOUT = """\
Show how many GPUs are available, and of each GPU who holds it and what it does:
free, filled (only work that leaves when the GPU is needed), busy, idle (held,
nothing runs), stuck (looks busy, does nothing) or unknown. With --cluster show
the cluster that `fallow up` watches: what is available now, and which jobs hold
GPUs that they do not use."""
EXAMPLES = """\
  fallow status
  fallow status --watch 0-3
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
    made.add_argument("--mine", action="store_true", help="with --cluster, show only your jobs")
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
    if args.fleet:
        from fallow.interfaces.cli import fleet_status

        return fleet_status.run(args, world, voice)
    if args.cluster:
        from fallow.interfaces.cli import cluster_status

        return cluster_status.run(args, world, voice)
    if args.mine:
        raise WrongUsage("--mine has no effect without --cluster", "add --cluster")
    args.every = 1.0 if args.every is None else args.every
    elsewhere = world.proc.whose_pids()
    if elsewhere is not None:
        voice.note(f"the pids shown are of another pid namespace: {elsewhere}")
    daemon = None if args.alone else world.daemon(voice.detail)
    looks = (_shown(status, args.gpus, world.visible_devices) for status in _statuses(args, world, voice, daemon))

    def facts(shown: Shown) -> dict[str, object]:
        return _facts(shown, world, daemon)

    if not args.watch:
        shown = next(looks)
        if args.json:
            print(as_json.as_text(facts(shown)))
        else:
            from fallow.interfaces.render.table import show

            show(shown)
            _show_protections(shown.status, world, daemon)
        return 0
    if args.json or not sys.stdout.isatty():
        return _stream(looks, facts if args.json else None)
    from fallow.interfaces.render.table import show_live
    from fallow.interfaces.signals import interruptible

    with interruptible():
        show_live(looks)
    return 0


def _show_protections(status: Status, world: World, daemon: "DaemonClient | None") -> None:
    """Print below the table the protections in force on these GPUs."""
    from fallow.engine.jobs.protections import protections_on

    for protection in protections_on(status.gpus, world, daemon):
        print(with_its_end(protection, world.clock.wall_s(), labels_of(status.gpus)))


def _statuses(
    args: argparse.Namespace, world: World, voice: Stderr, daemon: "DaemonClient | None"
) -> Iterator[Status]:
    """Yield the daemon's status for as long as it answers; then what this process reads itself."""
    if daemon is not None:
        while (status := daemon.status()) is not None:
            yield status
            world.clock.sleep(args.every)
    if args.watch:
        voice.detail(f"looking every {args.every:g} s")
        yield from (_with_parked(world, status) for status in watch(world, args.every))
    voice.detail("looking once")
    yield _with_parked(world, _with_names(world, look_once(world)))


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


def _shown(status: Status, gpus: str | None, visible_devices: str | None) -> Shown:
    """Return the requested GPUs, and how many of them CUDA_VISIBLE_DEVICES leaves available."""
    named = status if gpus is None else status.among(frozenset(gpu.label for gpu in select(gpus, status.gpus)))
    allowed = frozenset(gpu.label for gpu in visible(visible_devices, status.gpus))
    return Shown(named, visible_devices, named.among(allowed).available)


def _facts(shown: Shown, world: World, daemon: "DaemonClient | None") -> dict[str, object]:
    from fallow.engine.jobs.protections import active_protections

    protections: Sequence[Protection] | Unknown
    try:
        protections = active_protections(world, daemon)
    except FallowError as error:
        protections = Unknown(str(error))
    rules = None if daemon is None else daemon.rules_on([str(gpu.uuid) for gpu in shown.status.gpus], None)
    counting = [each for each in rules or () if isinstance(each, Counting)]
    return {**as_json.status(shown.status, protections, counting), "available_to_you": shown.to_you}


def _stream(looks: Iterator[Shown], facts: Callable[[Shown], dict[str, object]] | None) -> int:
    for shown in looks:
        if facts is not None:
            print(json.dumps(facts(shown)), flush=True)
        else:
            from fallow.interfaces.render.table import show

            show(shown)
    return 0
