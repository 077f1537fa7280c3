"""`fallow why`: explain why a GPU or a process is judged as it is, which rule counts, and what was done."""

import argparse

from fallow.engine.answers.asker import Asker
from fallow.engine.answers.why import explain
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_json
from fallow.interfaces.render import why_text
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.render.table import show_lines
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Explain a GPU, a process, a user's jobs or a job of a cluster: what it does now
and why, since when, who is on it, which rule counts and when it would act; then
the last decision with its readings, and what was done. Of a user it tells the
last stops of their jobs."""
EXAMPLES = """\
  fallow why            the last decision, and what was done
  fallow why 3          GPU 3
  fallow why 12345      a process
  fallow why mine       your jobs, and which of them were stopped; or user:NAME
  fallow why slurm:1234      a job of a cluster; or node:n1
  fallow why --json"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow why`."""
    made.usage = "fallow why [OPTIONS] [SUBJECT]"
    made.add_argument(
        "subject",
        nargs="?",
        metavar="SUBJECT",
        help="the GPU or process to explain, mine, user:NAME, or a part of the cluster: slurm:ID, "
        "deployment:NAMESPACE/NAME, "
        "pod:NAMESPACE/NAME, node:NAME (default: the last one)",
    )
    add_json(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Print what is so now, and what the journals of this user and the daemon have."""
    asker = Asker(world, voice.note, voice.detail)
    if args.subject is not None and ":" in args.subject:
        from fallow.core.cluster_names import names_cluster

        if names_cluster(args.subject):
            from fallow.interfaces.cli import cluster_why

            return cluster_why.run(args, asker)
    found = explain(asker, args.subject)
    if args.json:
        print(as_text(why_text.as_json(found)))
        return 0
    show_lines(why_text.lines(found))
    return 0
