"""`gpu_mon`: run programs on idle GPUs as its INI file says, with the loop of `fallow fill`."""

import argparse
import shlex
from collections.abc import Callable, Sequence

from fallow.compat.gpu_mon_file import PLACE, Filler, GpuMonFile, read
from fallow.compat.gpu_mon_toml import as_toml
from fallow.core.arguments import ArgumentParser
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.units import duration_for_people, printable
from fallow.engine.allocate.usable_gpus import gpus_to_fill
from fallow.engine.fill.compose import fill_loop
from fallow.engine.fill.start import FillerSpec
from fallow.engine.history.run import open_run
from fallow.engine.machine.presence import PresenceRules
from fallow.engine.machine.world import World
from fallow.policies.fill import FillRules


def main(words: Sequence[str], world: World, tell: Callable[[str], None]) -> int:
    """Fill GPUs as the file says until a person ends it, or only print the fallow.toml that says the same."""
    args = _options(words)
    file = read(args.config)
    if args.print_config:
        print(as_toml(file, world.user), end="")
        return 0
    slots = _slots(file, gpus_to_fill(world, None, tell), tell)
    with open_run(world, tell) as run:
        loop = fill_loop(run, [(spec(file, filler), gpus) for filler, gpus in slots])
        quiet = duration_for_people(file.interval_s)
        for slot in loop.slots:
            tell(f"{slot.name}: {printable(shlex.join(slot.spec.command))} after {quiet} of quiet")
        loop.run()
    return 0


def spec(file: GpuMonFile, filler: Filler) -> FillerSpec:
    """Return one program of the file as a filler."""
    if file.user_idle_s is None:
        presence = PresenceRules(mind_users=False)
    else:
        presence = PresenceRules(user_idle_s=float(file.user_idle_s), ignore_users=file.ignore_users)
    return FillerSpec(
        filler.command,
        FillRules(idle_for_s=float(file.interval_s)),
        presence,
        name=filler.name,
        together=filler.together,
        ignore=file.ignored_by(filler),
        log=filler.log,
        cwd=filler.folder,
    )


def _slots(
    file: GpuMonFile, here: Sequence[Gpu], tell: Callable[[str], None]
) -> list[tuple[Filler, tuple[Gpu, ...]]]:
    """Return the GPUs of each program that the machine has; a program without any is left out."""
    found = []
    shown = {gpu.index for gpu in here}
    for filler in file.fillers:
        wanted = shown if filler.gpus is None else set(filler.gpus)
        missing = ", ".join(map(str, sorted(wanted - shown)))
        gpus = tuple(gpu for gpu in here if gpu.index in wanted)
        if missing:
            tell(
                f"[{filler.name}] {'goes' if gpus else 'is left out'} without GPU {missing}, which is not shown here"
            )
        if gpus:
            found.append((filler, gpus))
    if not found:
        raise WrongUsage("none of the GPUs that the file names is shown here")
    return found


def _options(words: Sequence[str]) -> argparse.Namespace:
    what = "Run programs on idle GPUs, and end them when somebody else opens one or is at a terminal."
    parser = ArgumentParser.of_older_tool("gpu_mon", what)
    add = parser.add_argument
    add("-c", "--config", default=PLACE, metavar="FILE", help="the INI file")
    add("--print-config", action="store_true", help="print the fallow.toml that says the same, and do nothing else")
    return parser.parse_args(words)
