"""`fallow idle slurm:1234`: whether jobs of the cluster have been idle for so long. What cannot be told is no yes."""

import argparse

from fallow.core.cluster_view import GpuState
from fallow.core.errors import WrongUsage
from fallow.core.units import duration_for_people, printable
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.cluster_idle import ask_cluster_idle
from fallow.interfaces.render import cluster_json
from fallow.interfaces.render.as_json import as_text

_WORDS = {True: "idle", False: "in use", None: "cannot be told"}
_EXIT_CODES = {True: 0, False: 1, None: 75}


def run(args: argparse.Namespace, asker: Asker) -> int:
    """Ask the daemon, print the answer for each job, and return the exit code for all of them."""
    if args.unless:
        raise WrongUsage("--unless is about the processes of this machine", "leave it out")
    found = ask_cluster_idle(asker, args.subject, args.for_s)
    if args.json:
        print(as_text(cluster_json.idle(found)))
    elif not found.answers:
        print(printable(f"{args.subject}: {_WORDS[found.together]}: {found.because}"))
    else:
        for each in found.answers:
            short = each.idle is False and each.activity == GpuState.IDLE
            word = f"not for {duration_for_people(args.for_s)} yet" if short else _WORDS[each.idle]
            print(printable(f"{each.job}: {word}: {each.because}"))
    return _EXIT_CODES[found.together]
