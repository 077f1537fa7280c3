"""`fallow pick`: print idle GPUs for use in a shell."""

import argparse

from fallow.engine.allocate.pick import pick
from fallow.engine.machine.world import World
from fallow.interfaces.cli.options import Parser, add_choice, chooses, interruptible_while_waiting, request
from fallow.interfaces.render import gpu_names
from fallow.interfaces.stderr import Stderr

ABOUT = """\
Print GPUs that are free: no process holds them, nothing runs on them and nobody
has claimed them. They are reserved for a few seconds, so that the next pick
takes others; to claim them for a whole job, use `fallow run`."""
EXAMPLES = """\
  CUDA_VISIBLE_DEVICES=$(fallow pick --format uuid) python train.py
  eval "$(fallow pick -n 2 --name H100 --format env)"
  docker run --gpus "$(fallow pick --format docker)" IMAGE
  fallow pick -n 4 --min-free 40GiB --wait 10m"""


def add_options(made: Parser) -> None:
    """Add the options of `fallow pick`."""
    add_choice(made)
    chooses(
        made,
        "--format",
        ("index", "uuid", "env", "docker", "json"),
        "print indices (0,3), UUIDs, `export` lines for eval, the value of docker's --gpus, or JSON (default: index)",
        "index",
    )
    made.add_argument("--shared", action="store_true", help="print also GPUs that jobs with --shared share")
    made.add_argument("--dry-run", action="store_true", help="print them, and reserve nothing")


def run(args: argparse.Namespace, world: World, voice: Stderr) -> int:
    """Pick GPUs, and print them."""
    wanted = request(args, shared=args.shared)
    with interruptible_while_waiting(wanted):
        gpus = pick(world, wanted, voice.note, reserve=not args.dry_run)
    match args.format:
        case "index":
            print(gpu_names.by_index(gpus))
        case "uuid":
            print(gpu_names.by_uuid(gpus))
        case "docker":
            print(gpu_names.for_docker(gpus))
        case "env":
            pairs = " ".join(f"{name}={value}" for name, value in gpu_names.environment(gpus, indices=True).items())
            print(f"export {pairs}")
        case _:
            from fallow.core.api import VERSION
            from fallow.interfaces.render.as_json import as_text, gpu_facts

            print(as_text({"version": VERSION, "gpus": [gpu_facts(gpu) for gpu in gpus]}))
    return 0
