"""`fallow why slurm:1234`: what a job of the cluster does now, which rule counts for it, and what was done to it."""

import argparse

from fallow.engine.answers.asker import Asker
from fallow.engine.answers.cluster import note_if_old
from fallow.engine.answers.cluster_why import explain_cluster
from fallow.interfaces.render import cluster_why_text
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.render.table import show_lines


def run(args: argparse.Namespace, asker: Asker) -> int:
    """Print what the daemon says of the job now, then what the journals have."""
    found = explain_cluster(asker, args.subject)
    if args.json:
        print(as_text(cluster_why_text.as_json(found)))
        return 0
    if found.view is not None:
        note_if_old(asker, found.view)
    show_lines(cluster_why_text.lines(found, asker.world.clock.wall_s()))
    return 0
