"""`fallow report`: the hours of each activity, and what idle hours cost."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from fallow.core.errors import WrongUsage
from fallow.core.moments import Moment, moment
from fallow.core.money import prices_from
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.cluster_report import KINDS
from fallow.engine.answers.report import open_report
from fallow.engine.history.report import Report
from fallow.engine.machine.local_zone import LocalZone
from fallow.engine.machine.world import World
from fallow.interfaces.cli.on_options import add_on
from fallow.interfaces.cli.options import Parser, chooses, several, takes
from fallow.interfaces.render import report_text
from fallow.interfaces.stderr import Stderr
from fallow.policies.cost import By

ABOUT = """\
Add up the hours in which each GPU was free, filled, busy, idle, stuck or
unknown, and what the idle and stuck hours cost. Only time in which `fallow up`
ran is counted. With --cluster add up the GPUs of the cluster that it watches."""
EXAMPLES = """\
  fallow report                             the last 7 days, by GPU
  fallow report --by user --price 2.50/h    what each user left unused
  fallow report --cluster --by account --price 2.50/h
  fallow report --since 2026-11-01 --until 2026-11-08 --by day
  fallow report --since 30d --by job --format csv > jobs.csv
  fallow report --since 30d --by hour --format csv    what is idle when
  fallow report --on 'gpu*' --by user       over several hosts
  fallow report --on gpu1,gpu2 --by gpu --format csv > all.csv
  fallow report --price H100=2.50/h --price T4=0.40/h --format html > week.html"""

_HOUR = "hour"
_HOST = "host"
_KINDS: dict[str, Sequence[str]] = {"": [*By, _HOUR], "--cluster": KINDS, "--on": [_HOST, *By]}
_USUAL = {"": By.GPU.value, "--cluster": "user", "--on": _HOST}
"""What the hours are added up by: of this machine, or with an option."""
_FORMATS = ("table", "json", "csv", "html")
_LONGEST_S = 3660 * 86400.0
_WEEK_S = 7 * 86400.0
_SPAN = "write it as 12h, 7d, 2w or 2026-11-01"


def add_options(made: Parser) -> None:
    """Add the options of `fallow report`."""
    add = partial(takes, made)
    since = "when it begins: so long ago (12h, 7d, 2w), or a day or time (2026-11-01, 2026-11-01T09:30)"
    add("--since WHEN", moment, f"{since}; default: 7 days before it ends")
    add("--until WHEN", moment, "when it ends, written alike; 2026-11-08 is when that day begins (default: now)")
    by = (
        "add up the hours of each GPU, user, job, day or week; html has all, this one first (default: gpu); as csv "
        "also of each hour of the week; with --cluster of each node, partition, account, qos, namespace or user "
        "(default: user); with --on also of each host (default: host)"
    )
    chooses(made, "--by", list(dict.fromkeys([*By, _HOUR, *KINDS, _HOST])), by, "", metavar="KIND")
    made.add_argument("--cluster", action="store_true", help="add up what the GPUs of the cluster did")
    several(
        made,
        "--price MONEY/h",
        "what an hour of a GPU costs: 2.50/h or $2.50/h; H100=2.50/h for GPUs with this name or UUID",
    )
    chooses(
        made,
        "--format",
        _FORMATS,
        "how to print the report (default: table); csv has the lines of --by, or with --by hour the hours of the "
        "week; the others have both",
        "table",
    )
    add_on(made, "add up the hours of these hosts; not as html")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Read history, add it up, and print it."""
    given = prices_from(args.price)
    _demand_kind(args)
    now_s = world.clock.wall_s()
    since_s, until_s = _span(args, now_s)
    if args.on is not None:
        from fallow.interfaces.cli.report_on import run_on

        return run_on(args, world, voice, since_s, until_s)
    if args.cluster:
        from fallow.interfaces.cli import cluster_report

        return cluster_report.run(args, world, voice, (since_s, until_s), given)
    asker = Asker(world, voice.note, voice.detail)
    with open_report(asker, since_s, until_s, given) as report:
        if report.intervals or args.format != "table":
            _print(report, args.by, args.format)
    return 0


def _span(args: argparse.Namespace, now_s: float) -> tuple[float, float]:
    """Return when the report begins and ends; raise WrongUsage if there is no such span."""
    zone = LocalZone()
    since: Moment | None = args.since
    until: Moment | None = args.until
    try:
        until_s = now_s if until is None else min(now_s, until.wall_s(now_s, zone))
        since_s = until_s - _WEEK_S if since is None else since.wall_s(now_s, zone)
    except (OverflowError, ValueError, OSError):
        raise WrongUsage("that time is beyond what the clock can tell", _SPAN) from None
    if not now_s - _LONGEST_S <= since_s < now_s:
        raise WrongUsage("--since is a time between now and ten years ago", _SPAN)
    if since_s >= until_s:
        end = "now" if until is None else until.text
        raise WrongUsage(
            f"the report would end ({end}) before it begins ({'' if since is None else since.text})", _SPAN
        )
    return since_s, until_s


def _demand_kind(args: argparse.Namespace) -> None:
    """Set what the hours are added up by; raise WrongUsage for what only another kind of report has."""
    option = "--on" if args.on is not None else "--cluster" if args.cluster else ""
    kinds = _KINDS[option]
    args.by = args.by or _USUAL[option]
    if args.by in kinds and (args.by != _HOUR or args.format == "csv"):
        return
    if args.by == _HOUR and not option:
        raise WrongUsage(
            f"--by {_HOUR} is for --format csv",
            "write --format csv, or leave it out: the table, JSON and html have the hours of the week in any case",
        )
    if not option:
        needed = next(name for name, known in _KINDS.items() if args.by in known)
        raise WrongUsage(f"--by {args.by} needs {needed}", "add it, or add up by something else")
    raise WrongUsage(f"--by {args.by} does not go with {option}", f"write {', '.join(kinds[:-1])} or {kinds[-1]}")


def _print(report: Report, kind: str, form: str) -> None:
    if kind == _HOUR:
        sys.stdout.write(report_text.hours_as_csv(report))
        return
    by = By(kind)
    match form:
        case "json":
            text = report_text.as_json(report, by)
        case "csv":
            text = report_text.as_csv(report, by)
        case "html":
            from fallow.interfaces.render.report_html import as_html

            text = as_html(report, by)
        case _:
            report_text.show_table(report, by)
            return
    sys.stdout.write(text)
