"""`fallow status`: each GPU, what it does, for how long, and who holds it."""

import argparse
import json
import sys
from collections.abc import Iterator

from fallow.core.holds import OneGpu, with_its_end
from fallow.core.seen import Sight
from fallow.core.selection import select
from fallow.core.value import replace
from fallow.engine.watching import look_once, watch
from fallow.engine.world import World
from fallow.faces import as_json
from fallow.faces.cli.options import Parser, add_alone, every_s
from fallow.faces.voice import Voice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.engine.asking import Daemon

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


def run(args: argparse.Namespace, world: World, voice: Voice) -> int:
    """Ask the daemon or look, and show."""
    elsewhere = world.proc.whose_pids()
    if elsewhere is not None:
        voice.note(f"the pids that are shown are not ours: {elsewhere}")
    daemon = None if args.alone else world.daemon(voice.detail)
    sights = (_only(sight, args.gpus) for sight in _sights(args, world, voice, daemon))
    if not args.watch:
        sight = next(sights)
        if args.json:
            print(json.dumps(as_json.sight(sight), indent=2))
        else:
            from fallow.faces.table import show

            show(sight)
            _show_holds(sight, world, daemon)
        return 0
    if args.json or not sys.stdout.isatty():
        return _stream(sights, as_lines=args.json)
    from fallow.faces.interrupt import interruptible
    from fallow.faces.table import show_live

    with interruptible():
        show_live(sights)
    return 0


def _show_holds(sight: Sight, world: World, daemon: "Daemon | None") -> None:
    """Below the table: what nobody's rule touches now, whoever holds the GPU."""
    from fallow.engine.held import holds_on

    labels = {OneGpu(str(gpu.uuid)): gpu.label for gpu in sight.gpus}
    for hold in holds_on(sight.gpus, world, daemon):
        label = labels.get(hold.target) if isinstance(hold.target, OneGpu) else None
        print(f"{'' if label is None else f'GPU {label}: '}{with_its_end(hold, world.clock.wall_s())}")


def _sights(args: argparse.Namespace, world: World, voice: Voice, daemon: "Daemon | None") -> Iterator[Sight]:
    """What the daemon sees, for as long as it answers; then what we see ourselves."""
    if daemon is not None:
        while (sight := daemon.sight()) is not None:
            yield sight
            world.clock.sleep(args.every)
    if args.watch:
        voice.detail(f"looking every {args.every:g} s")
        yield from watch(world, args.every)
    voice.detail("looking once")
    yield look_once(world)


def _only(sight: Sight, gpus: str | None) -> Sight:
    if gpus is None:
        return sight
    labels = {gpu.label for gpu in select(gpus, sight.gpus)}
    return replace(sight, gpus=tuple(gpu for gpu in sight.gpus if gpu.label in labels))


def _stream(sights: Iterator[Sight], *, as_lines: bool) -> int:
    for sight in sights:
        if as_lines:
            print(json.dumps(as_json.sight(sight)), flush=True)
        else:
            from fallow.faces.table import show

            show(sight)
    return 0
