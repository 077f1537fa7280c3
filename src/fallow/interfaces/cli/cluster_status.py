"""`fallow status --cluster`: what is available in the cluster, and which jobs hold GPUs that they do not use."""

import argparse
import json
import sys
from collections.abc import Iterator

from fallow.core.cluster_names import KIND_WORDS, cluster_target, names_cluster
from fallow.core.cluster_view import ClusterView
from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import NoDaemon, NothingFound, WrongUsage
from fallow.core.protections import ClusterPart, OneClusterJob
from fallow.core.units import duration_for_people, printable
from fallow.engine.machine.world import World
from fallow.interfaces.render import cluster_json
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.render.cluster_table import OLD_S, show, show_live
from fallow.interfaces.stderr import Stderr

_ALL = 20_000
_EVERY_S = 5.0
_WAY = "write a job as slurm:1234 or deployment:NAMESPACE/NAME, or node:NAME, partition:NAME, user:NAME"


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon for the cluster, and print it."""
    subject = _subject(args, world)
    if args.watch and (args.json or not sys.stdout.isatty()):
        for view in _views(args, world, voice, subject):
            if args.json:
                print(json.dumps(cluster_json.cluster(view)), flush=True)
            else:
                show(view, world.clock.wall_s(), subject)
        return 0
    if args.watch:
        from fallow.interfaces.signals import interruptible

        with interruptible():
            show_live(_views(args, world, voice, subject), world.clock.wall_s, subject)
        return 0
    view = cluster_of(world, voice, subject, alone=args.alone)
    if args.json:
        print(as_text(cluster_json.cluster(view)))
        return 0
    demand_found(view, subject)
    show(view, world.clock.wall_s(), subject)
    return 0


def cluster_of(world: World, voice: Stderr, subject: str | None, *, alone: bool = False) -> ClusterView:
    """Return the cluster as the daemon saw it; raise NoDaemon where there is none that watches one."""
    if alone:
        raise WrongUsage("only `fallow up` looks at the cluster", "leave out --alone")
    daemon = world.daemon(voice.detail)
    view = daemon.cluster(subject, _ALL)
    if view is None and daemon.trouble is not None:
        raise NoDaemon(f"the cluster is not known: {daemon.trouble}", "see: fallow check, docs/guides/cluster.md")
    if view is None:
        raise NoDaemon(
            "no `fallow up` runs on this machine, and only it looks at the cluster",
            "start it with a config that has [cluster]",
        )
    return view


def tell_if_old(view: ClusterView, now_s: float, voice: Stderr) -> bool:
    """Return whether the last look was long ago, and say so."""
    old_s = now_s - view.at_wall_s
    if old_s <= OLD_S:
        return False
    voice.note(f"the cluster was last looked at {duration_for_people(round(old_s))} ago: what follows is old")
    return True


def demand_found(view: ClusterView, subject: str | None) -> None:
    """Raise NothingFound where one job or node was named, and is known not to be there."""
    target = None if subject is None or subject.startswith("user:") else cluster_target(subject)
    if isinstance(target, OneClusterJob) and not view.jobs and view.jobs_listed:
        raise NothingFound(
            f"{subject} holds no GPU now, or does not exist", "fallow status --cluster lists the jobs that do"
        )
    demand_node(view, target)


def demand_node(view: ClusterView, target: OneClusterJob | ClusterPart | None) -> None:
    """Raise NothingFound for a node that is known not to be there: all could be read, and it is not among them."""
    if isinstance(target, ClusterPart) and target.kind == "node" and not view.nodes and not view.troubles:
        raise NothingFound(f"there is no node {target.name} with GPUs", "fallow status --cluster lists them")


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


def _views(args: argparse.Namespace, world: World, voice: Stderr, subject: str | None) -> Iterator[ClusterView]:
    while True:
        yield cluster_of(world, voice, subject, alone=args.alone)
        world.clock.sleep(_EVERY_S if args.every is None else args.every)
