"""`fallow status --fleet`: one line for each host that the daemon asks."""

import argparse

from fallow.core.activity import Activity
from fallow.core.errors import NoDaemon, WrongUsage
from fallow.core.units import duration_for_people, printable, shortened
from fallow.engine.machine import from_json
from fallow.engine.machine.daemon_client import Facts
from fallow.engine.machine.world import World
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr

_SHOWN = (Activity.BUSY, Activity.IDLE, Activity.STUCK, Activity.UNKNOWN)
_LONGEST = 200


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon for its fleet, and print it."""
    for option in ("watch", "mine", "cluster", "alone"):
        if getattr(args, option):
            raise WrongUsage(f"--{option} does not go with --fleet", "leave one of them out")
    if args.gpus is not None:
        raise WrongUsage("--fleet shows whole hosts", f"leave {printable(args.gpus)} out")
    found = world.daemon(voice.note).fleet()
    if found is None:
        raise NoDaemon("no daemon here asks other hosts", "name them under [fleet] in the config of `fallow up`")
    if args.json:
        print(as_text(found))
        return 0
    from fallow.interfaces.render.table import show_rows

    now_s = world.clock.wall_s()
    heads = ["host", "GPUs", "available", *(activity.value for activity in _SHOWN), "and why"]
    show_rows(None, heads, [row_of(host, now_s) for host in found["hosts"]])
    return 0


def row_of(host: Facts, now_s: float) -> list[str]:
    """Return the row of one host in the table."""
    name = shortened(str(host["name"]), _LONGEST)
    status = host["status"]
    if status is None:
        since_s = max(0.0, now_s - from_json.wall_s(host["since"]))
        why = shortened(str(host["error"]), _LONGEST)
        return [name, "?", "?", *("?" for _ in _SHOWN), f"silent for {duration_for_people(since_s)}: {why}"]
    counts = status["counts"]
    told = [str(counts.get(activity.value, 0)) for activity in _SHOWN]
    return [name, str(len(status["gpus"])), str(status["available"]), *told, "this host" if host["here"] else ""]
