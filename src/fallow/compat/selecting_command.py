"""The command `gpuselect`: print idle GPUs, or claim them as `fallow run` does and exec() a command."""

import argparse
from collections.abc import Callable, Sequence

from fallow.actuators.process import spawn
from fallow.compat.selecting import CVD, by_device, pick_for, request_for, speak
from fallow.core.arguments import ArgumentParser
from fallow.core.units import program_name
from fallow.engine.allocate.claim import claim
from fallow.engine.machine.world import World


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:  # noqa: RET503  become() never returns
    """Print the GPUs, or exec() the command that is to run on them."""
    at = words.index("--") if "--" in words else len(words)
    args = _options(words[:at])
    command = [*args.command, *words[at + 1 :]]
    speak(debug=args.debug)
    request = request_for(world, args.count, args.devices, args.name, args.util, args.mem_util, args.processes)
    if not command:
        gpus = pick_for(world, request)
        if not args.quiet:
            print(by_device(gpus))
        return 0
    path = spawn.find(command, world.environ)
    environ = {**world.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if args.processes:  # a GPU that others use too cannot be claimed
        gpus = pick_for(world, request)
    else:
        claimed = claim(world, request, program=program_name(command[0]), say=tell)
        gpus = claimed.gpus
        for held in claimed.claims:
            held.hand_to_job()
        environ["FALLOW_CLAIM"] = ",".join(str(gpu.uuid) for gpu in gpus)
    spawn.become(path, command, {**environ, CVD: by_device(gpus)})


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = ArgumentParser.of_older_tool("gpuselect", "Print idle GPUs, or run CMD on them.")
    parser.usage = "gpuselect [OPTIONS] [-- CMD ...]"
    add = parser.add_argument
    add("-d", "--devices", type=_devices, help="only these device IDs, all of them: 0 or 0,1")
    add("-n", "--name", help="only GPUs with this in their name")
    add("-u", "--util", type=int, default=0, help="utilization up to so much, in per cent")
    add("-m", "--mem_util", type=int, default=0, help="memory utilization up to so much, in per cent")
    add("-c", "--count", type=int, default=1, help="how many")
    add("-p", "--processes", type=int, default=0, help="held by up to so many processes")
    add("-q", "--quiet", action="store_true", help="do not print the value of CUDA_VISIBLE_DEVICES")
    add("-D", "--debug", action="store_true", help="say on stderr how they are chosen")
    add("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def _devices(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of device IDs; write 0 or 0,1") from None
