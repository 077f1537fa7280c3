"""`fallow report --on`: ask several hosts for their reports, and add up their hours."""

import argparse
import sys

from fallow.core.api import VERSION
from fallow.core.errors import NoDaemon, WrongUsage
from fallow.core.units import printable
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Refused
from fallow.engine.remote.report import added_up, reports_of
from fallow.interfaces.cli.on import reached, told_of
from fallow.interfaces.render import hosts_report
from fallow.interfaces.render.as_json import as_text, iso_time
from fallow.interfaces.stderr import Stderr


def run_on(args: argparse.Namespace, world: World, voice: Stderr, since_s: float, until_s: float) -> int:
    """Print the sum of all reports, name each host without one, and return 0 if there is one."""
    if args.cluster:
        raise WrongUsage("--cluster does not go with --on", "leave one of them out")
    if args.format == "html":
        raise WrongUsage("--format html does not go with --on", "write table, json or csv")
    hosts, ssh = reached(args, world)
    now_s = world.clock.wall_s()
    words = [f"--since={now_s - since_s:.0f}s", f"--until={now_s - until_s:.0f}s"]
    words += [f"--price={price}" for price in args.price]
    answers = reports_of(world, ssh, hosts, words, args.by)
    for host, answer in answers:
        if isinstance(answer, Refused):
            voice.note(f"without {host}: {printable(str(answer.reason))}")
    about = {"version": VERSION, "since": iso_time(since_s), "until": iso_time(until_s), "by": args.by}
    found = about | {"hosts": [told_of(host, answer) for host, answer in answers]} | added_up(answers, args.by)
    silent = all(isinstance(answer, Refused) for _, answer in answers)
    if args.format == "json":
        sys.stdout.write(f"{as_text(found)}\n")
    elif args.format == "csv":
        sys.stdout.write(hosts_report.as_csv(found))
    elif not silent:
        hosts_report.show_table(found)
    return NoDaemon.exit_code if silent else 0
