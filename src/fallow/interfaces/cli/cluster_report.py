"""`fallow report --cluster`: what the GPUs of the cluster did, by node, partition, account, namespace or user."""

import argparse
import sys

from fallow.core.cluster_usage import KINDS, UsageReport, usage_report
from fallow.core.errors import FallowError
from fallow.core.money import Prices
from fallow.engine.answers.report import prices_in_force
from fallow.engine.machine.world import World
from fallow.interfaces.render import cluster_report
from fallow.interfaces.stderr import Stderr


def run(args: argparse.Namespace, world: World, voice: Stderr, given: Prices) -> int:
    """Ask the daemon, or read what was kept, and print it."""
    daemon = world.daemon(voice.detail)
    prices = given if given.given else prices_in_force(world, daemon, voice.note)
    if prices.named:
        voice.note("prices of single models are left out: what a cluster did is not kept by model")
    now_s = world.clock.wall_s()
    span = (now_s - args.since, now_s - args.until)
    told = daemon.cluster_usage(args.by, args.since, args.until)
    if told is not None:
        rows, total = told
        report = usage_report(args.by, *span, rows, [total], prices)
    else:
        from fallow.engine.cluster.usage import read_usage

        rows = read_usage(world.state_folder, args.by, *span)
        report = usage_report(args.by, *span, rows, read_usage(world.state_folder, "cluster", *span), prices)
        if not rows and daemon.trouble is not None:
            raise FallowError(f"the daemon could not be asked what the cluster did: {daemon.trouble}")
    if not report.rows:
        voice.note(_why_nothing(report))
        if args.format == "table":
            return 0
    _print(report, args.format)
    return 0


def _why_nothing(report: UsageReport) -> str:
    if report.total.held_s or report.total.filled_s:
        kinds = ", ".join(kind for kind in KINDS if kind not in ("cluster", report.by))
        return f"no job of that time is known by its {report.by}; write --by with another one: {kinds}"
    return "nothing of that time is kept of a cluster; `fallow up` with [cluster] records it while it runs"


def _print(report: UsageReport, form: str) -> None:
    if form == "table":
        cluster_report.show_table(report)
        return
    text = {
        "json": cluster_report.as_json,
        "csv": cluster_report.as_csv,
        "html": cluster_report.as_html,
    }[form](report)
    sys.stdout.write(text)
