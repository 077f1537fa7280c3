"""`fallow pick --on`: print a host, and GPUs of it that are free."""

import argparse

from fallow.core.api import VERSION
from fallow.core.errors import WrongUsage
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import ask_all
from fallow.engine.remote.choose import Offered, offered
from fallow.interfaces.cli.find_host import HostFinder
from fallow.interfaces.cli.on import choice_words, reached
from fallow.interfaces.stderr import Stderr

_FORMATS = ("index", "uuid", "json")


def run_on(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Ask all hosts, pick on the most suitable one that still gives, and print it."""
    if args.format not in _FORMATS:
        raise WrongUsage(f"--format {args.format} does not go with --on", f"write one of {', '.join(_FORMATS)}")
    hosts, ssh, limit_s = reached(args, world)
    words = ["pick", "--format", "json", *choice_words(args)]
    finder = HostFinder(world, ssh, hosts, choice_words(args), limit_s, args.wait, voice)
    for host, would in finder.candidates():
        if args.dry_run:
            return _print(args, host, would)
        ((_, answer),) = ask_all(world, ssh, [host], words, limit_s, offered)
        if isinstance(answer, Offered):
            return _print(args, host, answer)
        finder.was_slower(host)
    raise finder.nothing_found()


def _print(args: argparse.Namespace, host: str, given: Offered) -> int:
    if args.format == "json":
        from fallow.interfaces.render.as_json import as_text

        print(as_text({"version": VERSION, "host": host, "gpus": list(given.facts)}))
    else:
        print(host, ",".join(given.uuids if args.format == "uuid" else given.indices))
    return 0
