"""`fallow slurm prolog|epilog|health`: a Slurm job seen from its node, for slurm.conf."""

import argparse
import os
import sys
import threading
from functools import partial

from fallow.core import units
from fallow.core.api import VERSION
from fallow.core.errors import CardFailed, WrongUsage
from fallow.core.units import printable
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.engine.slurm_node.job import job_of
from fallow.interfaces.cli.options import Parser, add_json, takes
from fallow.interfaces.render.as_json import as_text
from fallow.interfaces.stderr import Stderr

ABOUT = """\
For slurm.conf, on the nodes. `prolog` checks that the GPUs of the job are
there, answer and are free. `epilog` ends what is left of this very job on its
GPUs, and nothing of any other job. Neither runs a Slurm command. `health`
checks all GPUs of the node, and drains it only with --drain.

exit codes: 0 all is well; 1 a GPU is not free or not well, or something of the
job is left, with one sentence on stderr: Slurm then drains the node; 2 there is
no job in the environment; 69 no driver answers; 125 it took too long"""
EXAMPLES = """\
  Prolog=/usr/local/bin/fallow-prolog    a script with: exec fallow slurm prolog
  fallow slurm epilog --dry-run --job 1234 --gpus 0,1
  fallow slurm health --count 8 --drain"""

_PARTS = ("prolog", "epilog", "health")
_GRACE_S = 5.0
_LIMIT_S = 60.0
_TOO_LONG = 125


def add_options(made: Parser) -> None:
    """Add the options of `fallow slurm`."""
    made.usage = "fallow slurm prolog|epilog|health [OPTIONS]"
    made.add_argument("part", choices=_PARTS, metavar="prolog|epilog|health", help="what slurmd calls it for")
    takes(made, "--job ID", str, "the job, where the environment does not say it")
    takes(made, "--gpus LIST", str, "its GPUs, as 0,2 or 0-3 (default: SLURM_JOB_GPUS)")
    takes(
        made, "--grace D", units.duration_s, "how long after SIGTERM a leftover gets SIGKILL (default: 5s)", _GRACE_S
    )
    takes(made, "--limit D", units.span_s, "give up after so long (default: 60s)", _LIMIT_S)
    takes(made, "--count N", partial(units.count, most=1024), "how many GPUs the node must have, for health")
    takes(made, "--node NAME", str, "the node to drain (default: SLURMD_NODENAME, or the host)")
    made.add_argument("--drain", action="store_true", help="drain the node if health finds something wrong")
    made.add_argument("--dry-run", action="store_true", help="say what would be done, and exit with 0")
    add_json(made)


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Do the part that slurmd waits for, within its time."""
    if args.drain and args.part != "health":
        raise WrongUsage("--drain is for health; Slurm drains a node whose prolog or epilog fails")
    overdue = threading.Timer(args.limit, _give_up, (args.part, args.limit, voice))
    overdue.daemon = True
    overdue.start()
    try:
        trouble = {"prolog": _prolog, "epilog": _epilog, "health": _health}[args.part](args, world, voice)
    finally:
        overdue.cancel()
    if trouble is None:
        return 0
    if args.dry_run:
        voice.note(printable(f"would fail: {trouble}"))
        return 0
    raise CardFailed(printable(trouble))


def _prolog(args: argparse.Namespace, world: World, voice: Stderr) -> str | None:
    from fallow.engine.slurm_node.prolog import run_prolog

    job = job_of(world.environ, args.job, args.gpus)
    trouble = run_prolog(world, job, voice.note, dry_run=args.dry_run)
    if args.json:
        print(as_text({"version": VERSION, "job": job.id, "gpus": list(job.gpus), "trouble": trouble}))
    return trouble


def _epilog(args: argparse.Namespace, world: World, voice: Stderr) -> str | None:
    from fallow.engine.slurm_node.epilog import run_epilog

    job = job_of(world.environ, args.job, args.gpus)
    with open_run(world, voice.note, dry_run=args.dry_run) as opened:
        found = run_epilog(opened, job, args.grace)
    for note in found.notes:
        voice.note(printable(note))
    if args.json:
        ended = [
            {"pid": each.process.pid, "program": each.program, "gpus": list(each.gpus), "proof": each.proof.value}
            for each in found.ended
        ]
        facts = {"ended": ended, "trouble": found.left, "notes": list(found.notes)}
        print(as_text({"version": VERSION, "job": job.id, "gpus": list(job.gpus), **facts}))
    elif found.ended:
        print(printable(f"ended what was left of {job.subject}: {', '.join(each.name for each in found.ended)}"))
    return found.left


def _health(args: argparse.Namespace, world: World, voice: Stderr) -> str | None:
    from fallow.engine.slurm_node.health import run_health

    node = args.node or world.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    with open_run(world, voice.note, dry_run=args.dry_run) as opened:
        found = run_health(opened, node, args.count, drain=args.drain)
    if args.json:
        drained = None if found.drained is None else found.drained.words
        print(as_text({"version": VERSION, "node": node, "troubles": list(found.troubles), "drained": drained}))
    elif not found.troubles:
        print(printable(f"the GPUs of {node} are well"))
    if not found.troubles:
        return None
    done = "" if found.drained is None else f" (node {node}: {found.drained.words})"
    return f"{'; '.join(found.troubles)}{done}"


def _give_up(part: str, limit_s: float, voice: Stderr) -> None:
    """End this process: what it waits for, such as a process that hangs in the kernel, may never come."""
    voice.error(f"fallow slurm {part} did not end within {limit_s:g} s")
    sys.stderr.flush()
    os._exit(_TOO_LONG)
