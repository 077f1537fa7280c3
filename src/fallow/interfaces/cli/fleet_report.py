"""`fallow report --fleet`: the hours of all hosts that the daemon asks, added up by host, GPU, user, job or day."""

import argparse
from datetime import UTC, datetime

from fallow.core.activity import Activity
from fallow.core.errors import NoDaemon, WrongUsage
from fallow.core.fleet import FleetBy
from fallow.core.units import shortened
from fallow.engine.machine.daemon_client import Facts
from fallow.engine.machine.world import World
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.render.report_text import hours
from fallow.interfaces.stderr import Stderr

_LONGEST = 60
_COLUMNS: dict[FleetBy, tuple[str, ...]] = {
    "host": ("host",),
    "gpu": ("host", "gpu", "name"),
    "user": ("user", "hosts"),
    "job": ("job", "user", "hosts"),
    "day": ("day", "hosts"),
}


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon for the sum of all reports, and print it."""
    if args.format not in ("table", "json") or args.output is not None:
        raise WrongUsage("--fleet prints a table or JSON", "write --format json, and leave -o out")
    if args.price or args.alone:
        raise WrongUsage("--fleet takes the prices of each host's own config", "leave --price and --alone out")
    found = world.daemon(voice.note).fleet_report(args.since, args.by, args.until)
    if found is None:
        raise NoDaemon("no daemon here asks other hosts", "name them under [fleet] in the config of `fallow up`")
    for host in found["hosts"]:
        if host["error"] is not None:
            voice.note(f"without {host['name']}: {host['error']}")
    if args.format == "json":
        print(as_text(found))
        return 0
    from fallow.interfaces.render.table import show_hours

    names = _COLUMNS[args.by]
    heads = [*names, "observed", *(activity.value for activity in Activity), "cost of idle and stuck"]
    rows = [_row(line, [_cell(line[name]) for name in names], found["currency"]) for line in found["lines"]]
    total = _row(found["total"], ["total", *[""] * (len(names) - 1)], found["currency"])
    since, until = (datetime.fromisoformat(found[end]).astimezone(UTC) for end in ("since", "until"))
    title = f"hours from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC"
    show_hours(title, heads, [*rows, total], len(names), None)
    return 0


def _cell(fact: object) -> str:
    return shortened(", ".join(map(str, fact)) if isinstance(fact, list) else str(fact), _LONGEST)


def _row(line: Facts, names: list[str], currency: str | None) -> list[str]:
    parts = ("observed", *(each.value for each in Activity))
    told = [hours(round(line[f"{part}_s"] * 1000)) for part in parts]
    cost = "?" if line["cost"] is None else f"{line['cost']:.2f} {currency or ''}".strip()
    return [*names, *told, cost]
