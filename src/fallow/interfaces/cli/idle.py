"""`fallow idle`: answer other programs whether GPUs have been idle for so long, by the exit code."""

import argparse

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.idle_answer import IdleAnswer
from fallow.core.units import duration_for_people, printable, span_s
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.idle import ask_idle
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, several, takes
from fallow.interfaces.render import as_json
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Answer whether all GPUs are idle: free, filled with work that leaves, or held
while nothing runs. With --for, whether `fallow up` has seen them so for that
long, of somebody's GPUs only since they came. With --unless, whether the jobs
on them are not in use otherwise either.
What cannot be told is never a yes. A subject that holds no GPU is idle.

exit codes: 0 idle, 1 in use or not idle for so long, 75 cannot be told,
69 no driver"""
EXAMPLES = """\
  fallow idle --for 30m && echo "nobody has used a GPU for half an hour"
  fallow idle 0-3 --for 2h --json
  fallow idle user:ada --for 1h
  fallow idle slurm:1234 --for 30m
  fallow idle --for 30m --unless cpu:50 --unless jupyter && ./cull.sh
  fallow idle || echo "in use, or not to be told\""""
_ANSWERS = {True: "idle", False: "in use", None: "cannot be told"}
_EXIT_CODES = {True: 0, False: 1, None: 75}


def add_options(made: Parser) -> None:
    """Add the options of `fallow idle`."""
    made.usage = "fallow idle [OPTIONS] [SUBJECT]"
    made.add_argument(
        "subject",
        nargs="?",
        metavar="SUBJECT",
        help="ask only about these GPUs (0,2 or 0-3, UUIDs), or about those of somebody: pid:PID with all "
        "below it, user:NAME, container:NAME, unit:NAME, notebook:NAME, mine; or about jobs of the cluster: "
        "slurm:ID, deployment:NAMESPACE/NAME, node:NAME, partition:NAME",
    )
    takes(made, "--for D", span_s, "how long they must have been idle, as 30m (default: now)", 0.0, "for_s")
    several(
        made,
        "--unless COND",
        "not idle while this is so of the jobs on them, as in `fallow run`: cpu:P, jupyter, http:URL or file:PATH",
    )
    made.add_argument("--json", action="store_true", help="print the answer for each GPU as JSON")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask the daemon or look once, print the answers, and return the exit code for all of them."""
    asker = Asker(world, voice.note, voice.detail)
    if args.subject is not None and ":" in args.subject:
        from fallow.core.cluster_names import names_cluster

        if names_cluster(args.subject):
            from fallow.interfaces.cli import cluster_idle

            return cluster_idle.run(args, asker)
    found = ask_idle(asker, args.subject, args.for_s, args.unless)
    if args.json:
        print(as_json.as_text(as_json.idle(found.answers, args.for_s, found.together)))
    else:
        if not found.answers:
            print(printable(f"{args.subject}: {_ANSWERS[found.together]}: {found.because}"))
        for each in found.answers:
            print(printable(f"GPU {each.gpu}: {_in_words(each, args.for_s)}: {each.because}"))
    return _EXIT_CODES[found.together]


def _in_words(answer: IdleAnswer, for_s: float) -> str:
    """Return the answer. What is idle and was not for long enough is not called in use."""
    quiet = answer.activity in (*AVAILABLE, Activity.IDLE)
    if quiet and answer.idle is False and answer.for_s is not None and answer.for_s < for_s:
        return f"not for {duration_for_people(for_s)} yet"
    return _ANSWERS[answer.idle]
