"""`fallow report --fleet`: the hours of all hosts that the daemon asks, added up by host, GPU, user, job or day."""

import argparse
import sys

from fallow.core.errors import NoDaemon, WrongUsage
from fallow.engine.machine.daemon_client import Facts
from fallow.engine.machine.world import World
from fallow.interfaces.render import fleet_report
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon for the sum of all reports, and print it."""
    if args.format == "html":
        raise WrongUsage("--fleet is not told as html", "write --format table, json or csv")
    if args.price or args.alone:
        raise WrongUsage("--fleet takes the prices of each host's own config", "leave --price and --alone out")
    found = world.daemon(voice.note).fleet_report(args.since, args.by, args.until)
    if found is None:
        raise NoDaemon("no daemon here asks other hosts", "name them under [fleet] in the config of `fallow up`")
    for host in found["hosts"]:
        if host["error"] is not None:
            voice.note(f"without {host['name']}: {host['error']}")
    _print(found, args)
    return 0


def _print(found: Facts, args: argparse.Namespace) -> None:
    if args.format == "table":
        fleet_report.show_table(found, args.by)
        return
    sys.stdout.write(f"{as_text(found)}\n" if args.format == "json" else fleet_report.as_csv(found, args.by))
