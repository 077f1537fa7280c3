"""`fallow status`: each GPU, what it does, for how long, and who holds it."""

import argparse
import json
import sys
from collections.abc import Iterator

from fallow.core.gpu_status import Status
from fallow.core.protections import OneGpu, with_its_end
from fallow.core.selection import select
from fallow.core.value import replace
from fallow.engine.machine.observe import look_once, watch
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_alone, every_s
from fallow.interfaces.render import as_json
from fallow.interfaces.stderr import Stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.machine.daemon_client import DaemonClient

EXAMPLES = """\
  fallow status
  fallow status --watch 0-3
  fallow status --json | jq '.gpus[] | select(.activity == "fallow")'"""


def parser(parents: list[argparse.ArgumentParser]) -> Parser:
    """The options of status."""
    made = Parser(
        "fallow status",
        "Show how many GPUs can be had, and each GPU: free, filled (only work that makes way), busy,\n"
        "fallow (held, nothing runs), stuck or unknown, and who holds it.",
        EXAMPLES,
        parents,
    )
    made.add_argument("gpus", nargs="?", metavar="GPUS", help="only these: 0,2 or 0-3, UUIDs or their beginnings")
    made.add_argument("--json", action="store_true", help="print JSON; with --watch one object a line")
    made.add_argument("--watch", action="store_true", help="look again and again, until Ctrl-C")
    made.add_argument("--every", type=every_s, default=1.0, metavar="D", help="how often --watch looks (default: 1s)")
    add_alone(made)
    return made


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon or look, and show."""
    elsewhere = world.proc.whose_pids()
    if elsewhere is not None:
        voice.note(f"the pids that are shown are not ours: {elsewhere}")
    daemon = None if args.alone else world.daemon(voice.detail)
    statuses = (_only(status, args.gpus) for status in _statuses(args, world, voice, daemon))
    if not args.watch:
        status = next(statuses)
        if args.json:
            print(json.dumps(as_json.status(status), indent=2))
        else:
            from fallow.interfaces.render.table import show

            show(status)
            _show_protections(status, world, daemon)
        return 0
    if args.json or not sys.stdout.isatty():
        return _stream(statuses, as_lines=args.json)
    from fallow.interfaces.render.table import show_live
    from fallow.interfaces.signals import interruptible

    with interruptible():
        show_live(statuses)
    return 0


def _show_protections(status: Status, world: World, daemon: "DaemonClient | None") -> None:
    """Below the table: what nobody's rule touches now, whoever holds the GPU."""
    from fallow.engine.jobs.protections import protections_on

    labels = {OneGpu(str(gpu.uuid)): gpu.label for gpu in status.gpus}
    for protection in protections_on(status.gpus, world, daemon):
        label = labels.get(protection.target) if isinstance(protection.target, OneGpu) else None
        print(f"{'' if label is None else f'GPU {label}: '}{with_its_end(protection, world.clock.wall_s())}")


def _statuses(
    args: argparse.Namespace, world: World, voice: Stderr, daemon: "DaemonClient | None"
) -> Iterator[Status]:
    """What the daemon sees, for as long as it answers; then what we see ourselves."""
    if daemon is not None:
        while (status := daemon.status()) is not None:
            yield status
            world.clock.sleep(args.every)
    if args.watch:
        voice.detail(f"looking every {args.every:g} s")
        yield from watch(world, args.every)
    voice.detail("looking once")
    yield look_once(world)


def _only(status: Status, gpus: str | None) -> Status:
    if gpus is None:
        return status
    labels = {gpu.label for gpu in select(gpus, status.gpus)}
    return replace(status, gpus=tuple(gpu for gpu in status.gpus if gpu.label in labels))


def _stream(statuses: Iterator[Status], *, as_lines: bool) -> int:
    for status in statuses:
        if as_lines:
            print(json.dumps(as_json.status(status)), flush=True)
        else:
            from fallow.interfaces.render.table import show

            show(status)
    return 0
