"""The options of commands that can work on other hosts, over ssh."""

import argparse

from fallow.core.errors import WrongUsage
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import Refused
from fallow.engine.remote.hosts import hosts_meant
from fallow.engine.remote.ssh import Ssh, ssh_for
from fallow.interfaces.cli.on_options import ANSWER_WITHIN_S


def reached(args: argparse.Namespace, world: World) -> tuple[list[str], Ssh, float]:
    """Return the hosts that are meant, how to reach them, and how long each may take to answer."""
    limit_s = ANSWER_WITHIN_S if args.answer_within is None else args.answer_within
    if limit_s <= 0:
        raise WrongUsage("--answer-within 0 leaves a host no time", "write it as 10s")
    return hosts_meant(args.on, world.environ), ssh_for(world.environ, args.remote_fallow, limit_s), limit_s


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
