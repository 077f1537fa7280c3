"""The options of commands that can work on other hosts, over ssh."""

import argparse

from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Refused
from fallow.engine.remote.hosts import hosts_meant
from fallow.engine.remote.ssh import Ssh, ssh_for


def reached(args: argparse.Namespace, world: World) -> tuple[list[str], Ssh]:
    """Return the hosts that are meant, and how to reach them."""
    return hosts_meant(args.on, world.environ), ssh_for(world.environ)


def told_of(host: str, answer: object) -> dict[str, object]:
    """Return the JSON that names a host, and says why it has not answered."""
    if not isinstance(answer, Refused):
        return {"name": host, "error": None, "reason": None, "facts": {}}
    why = answer.reason
    return {"name": host, "error": str(why), "reason": why.kind, "facts": why.plain_facts}


def choice_words(args: argparse.Namespace) -> list[str]:
    """Return the options of `fallow pick` that select the same GPUs there."""
    words = [] if args.count is None else ["--count", str(args.count)]
    for option, text in (("--gpus", args.gpus), ("--name", args.name)):
        words += [] if text is None else [f"{option}={text}"]
    words += [f"--max-util={args.max_util * 100:g}", f"--max-mem-util={args.max_mem_util * 100:g}"]
    words += [f"--max-processes={args.max_processes}", f"--order={args.order}"]
    words += [f"--min-free={args.min_free}B"] if args.min_free else []
    return [*words, *(["--shared"] if args.shared else [])]
