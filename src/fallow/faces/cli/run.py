"""`fallow run`: claim GPUs, become the command."""

import argparse
import os
import shlex

from fallow.actuators import launcher
from fallow.core.errors import WrongUsage
from fallow.engine.claiming import claim
from fallow.engine.world import World
from fallow.faces import naming
from fallow.faces.cli.options import Parser, add_choice, request
from fallow.faces.voice import Voice

EXAMPLES = """\
  fallow run -- python train.py
  fallow run -n 4 --name H100 --wait -- torchrun --nproc-per-node 4 train.py
  fallow run --gpus 0-3 --wait 2h -- ./job.sh
  fallow run --rehearse -n 2 -- python train.py"""


def parser(parents: list[argparse.ArgumentParser]) -> Parser:
    """The options of run."""
    made = Parser(
        "fallow run",
        "Claim idle GPUs and run CMD on them. The claim lasts as long as any process of the job, however it ends.\n"
        "CMD keeps this terminal, environment, signals and exit code.",
        EXAMPLES,
        parents,
    )
    made.usage = "fallow run [OPTIONS] -- CMD ..."
    add_choice(made)
    made.add_argument("--shared", action="store_true", help="share the GPUs with others who say --shared too")
    made.add_argument(
        "--format",
        choices=("uuid", "index"),
        default="uuid",
        help="how CUDA_VISIBLE_DEVICES names them (default: uuid)",
    )
    made.add_argument("--rehearse", action="store_true", help="say what would be run and where, and run nothing")
    return made


def run(args: argparse.Namespace, world: World, voice: Voice) -> int:  # noqa: RET503  become() never returns
    """Claim, then become the command; only a rehearsal comes back."""
    command: list[str] = args.command
    if not command:
        raise WrongUsage("no command given; write: fallow run [OPTIONS] -- CMD ...")
    path = launcher.find(command, world.environ)
    line = shlex.join(command)
    claimed = claim(world, request(args, shared=args.shared), pid=os.getpid(), command=line, tell=voice.note)
    variables = naming.environment(claimed.gpus, indices=args.format == "index")
    if args.rehearse:
        assignments = " ".join(f"{name}={value}" for name, value in variables.items())
        voice.note(f"would run on GPU {', '.join(gpu.label for gpu in claimed.gpus)}: {assignments} {line}")
        return 0
    voice.detail(f"running on GPU {', '.join(gpu.label for gpu in claimed.gpus)}: {line}")
    for held in claimed.claims:
        held.hand_to_job()
    launcher.become(path, command, {**world.environ, **variables})
