"""`fallow report --cluster`: what the GPUs of the cluster did, by node, partition, account, namespace or user."""

import argparse
import sys

from fallow.core.money import Prices
from fallow.engine.answers.cluster_report import KINDS, cluster_report
from fallow.engine.machine.world import World
from fallow.interfaces.render import cluster_report as render
from fallow.interfaces.stderr import Stderr


def run(args: argparse.Namespace, world: World, voice: Stderr, span: tuple[float, float], given: Prices) -> int:
    """Ask Prometheus, and print what it has of this span."""
    report = cluster_report(world, args.by, *span, given)
    if report.prices.named:
        voice.note("prices of single models are left out: what a cluster did is not kept by model")
    if not report.lines:
        others = ", ".join(kind for kind in KINDS if kind != args.by)
        voice.note(
            f"Prometheus has nothing of that time by {args.by}; it must scrape the /metrics of the daemon that"
            f" watches the cluster. Other kinds are {others}"
        )
    if args.format == "table":
        if report.lines:
            render.show_table(report)
        return 0
    written = {"json": render.as_json, "csv": render.as_csv, "html": render.as_html}
    sys.stdout.write(written[args.format](report))
    return 0
