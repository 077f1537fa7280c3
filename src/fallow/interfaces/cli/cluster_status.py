"""`fallow status --cluster`: what is available in the cluster, and which jobs hold GPUs that they do not use."""

import argparse
import json
import sys
from collections.abc import Iterator

from fallow.core.cluster_names import KIND_WORDS, cluster_target, names_cluster
from fallow.core.cluster_view import ClusterView
from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import NothingFound, WrongUsage
from fallow.core.protections import OneClusterJob
from fallow.core.units import printable
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.cluster import cluster_of, demand_node
from fallow.engine.machine.world import World
from fallow.interfaces.render import cluster_json
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.render.cluster_table import show, show_live
from fallow.interfaces.stderr import Stderr

_EVERY_S = 5.0
_WAY = "write a job as slurm:1234 or deployment:NAMESPACE/NAME, or node:NAME, partition:NAME, user:NAME"


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon for the cluster, and print it."""
    subject = _subject(args, world)
    asker = Asker(world, voice.note, voice.detail)
    if args.watch is not None and (args.json or not sys.stdout.isatty()):
        for view in _views(args, asker, subject):
            if args.json:
                print(json.dumps(cluster_json.cluster(view)), flush=True)
            else:
                show(view, world.clock.wall_s(), subject)
        return 0
    if args.watch is not None:
        from fallow.interfaces.signals import interruptible

        with interruptible():
            show_live(_views(args, asker, subject), world.clock.wall_s, subject)
        return 0
    view = cluster_of(asker, subject)
    if args.json:
        print(as_text(cluster_json.cluster(view)))
        return 0
    demand_found(view, subject)
    show(view, world.clock.wall_s(), subject)
    return 0


def demand_found(view: ClusterView, subject: str | None) -> None:
    """Raise NothingFound where one job or node was named, and is known not to be there."""
    target = None if subject is None or subject.startswith("user:") else cluster_target(subject)
    if isinstance(target, OneClusterJob) and not view.jobs and view.jobs_listed:
        raise NothingFound(
            f"{subject} holds no GPU now, or does not exist", "fallow status --cluster lists the jobs that do"
        )
    demand_node(view, target)


def subject_or_refuse(text: str) -> str:
    """Return the word if it names a part of a cluster or a user; raise WrongUsage if it names neither."""
    kind, colon, rest = text.partition(":")
    if kind == "user" and rest:
        return text
    if names_cluster(text):
        cluster_target(text)
        return text
    way = (did_you_mean(kind, KIND_WORDS) if colon else "") or _WAY
    raise WrongUsage(f"{printable(text)!r} names nothing of a cluster", way)


def _subject(args: argparse.Namespace, world: World) -> str | None:
    if args.mine and args.gpus is not None:
        raise WrongUsage("--mine cannot be combined with a subject", "leave one of them out")
    if args.mine or args.gpus == "mine":
        return f"user:{world.user}"
    return None if args.gpus is None else subject_or_refuse(args.gpus)


def _views(args: argparse.Namespace, asker: Asker, subject: str | None) -> Iterator[ClusterView]:
    while True:
        yield cluster_of(asker, subject)
        asker.world.clock.sleep(args.watch or _EVERY_S)
