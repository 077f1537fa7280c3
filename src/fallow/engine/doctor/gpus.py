"""Check the driver and the GPUs: what can be read from them, and how soon a new process is noticed."""

from collections.abc import Iterator, Sequence

from fallow.core.errors import NoDriver
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.doctor.container import GIVE_DRIVER, has_own_files
from fallow.engine.doctor.finding import CheckFinding, broken, lacking, ok
from fallow.engine.machine.world import World
from fallow.readers.file_events import FileEvents

_BURN_NEEDS, _SUSPEND_NEEDS = 12000, 12080
_BETWEEN_LOOKS_S = 0.2


def examine(world: World) -> Iterator[CheckFinding]:
    """Check everything that the driver reports."""
    try:
        gpu_reader = world.gpu_reader
    except NoDriver as error:
        instead = GIVE_DRIVER if has_own_files(world) else "install NVIDIA's driver"
        yield broken("driver", f"{error.sentence}: fallow sees no GPU", f"{instead}, or add --simulate")
        return
    if world.simulated:
        yield ok("driver", f"not needed: {world.simulated} is simulated")
        yield ok("GPUs", f"{len(gpu_reader.look(Depth.HOLDERS).gpus)} simulated GPUs")
        return
    yield from _versions(world)
    gpu_reader.look(Depth.ALL)  # counters need two readings
    world.clock.sleep(_BETWEEN_LOOKS_S)
    gpus = gpu_reader.look(Depth.ALL).gpus
    yield _answering(gpus)
    well = [gpu for gpu in gpus if gpu.trouble is None]
    yield _process_lists(well)
    yield _counters(well)
    yield _nodes(well, world)


def _versions(world: World) -> Iterator[CheckFinding]:
    from fallow.readers.nvml_reader import NvmlReader

    if not isinstance(world.gpu_reader, NvmlReader):
        return
    driver, cuda = world.gpu_reader.versions()
    if isinstance(driver, Unknown):
        yield broken("driver", f"its version is {driver}")
    else:
        yield ok("driver", f"version {driver}")
    if isinstance(cuda, Unknown):
        yield lacking("CUDA", f"its version is {cuda}, so it is not known whether burn and suspending work")
        return
    spoken = f"the driver has CUDA {cuda // 1000}.{cuda % 1000 // 10}"
    if cuda < _BURN_NEEDS:
        yield lacking("CUDA", f"{spoken}: fallow burn needs 12.0, suspending 12.8", "install driver 570 or newer")
    elif cuda < _SUSPEND_NEEDS:
        yield lacking("CUDA", f"{spoken}: fillers can be ended but not suspended", "install driver 570 or newer")
    else:
        yield ok("CUDA", f"{spoken}, enough for burn and suspending")


def _answering(gpus: Sequence[Gpu]) -> CheckFinding:
    silent = [f"GPU {gpu.label}: {gpu.trouble}" for gpu in gpus if gpu.trouble is not None]
    if silent:
        means = f"{'; '.join(silent)}. They are unknown to every command, and never picked"
        return broken("GPUs", means, "see dmesg for Xid messages; reset the GPU or reboot the machine")
    return ok("GPUs", f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}, all answer")


def _process_lists(gpus: Sequence[Gpu]) -> CheckFinding:
    unseen = {gpu.label: gpu.holders for gpu in gpus if isinstance(gpu.holders, Unknown)}
    if unseen:
        label, why = next(iter(unseen.items()))
        return broken(
            "process lists",
            f"who holds GPU {', '.join(unseen)} is {why} (GPU {label}), so they are unknown and never picked",
        )
    return ok("process lists", "the processes on each GPU can be listed")


def _counters(gpus: Sequence[Gpu]) -> CheckFinding:
    blind = {gpu.label: gpu.counters for gpu in gpus if isinstance(gpu.counters, Unknown)}
    if not blind:
        return ok("counters", "hardware counters distinguish a hang from work")
    why = next(iter(blind.values()))
    means = f"GPU {', '.join(blind)} has none ({why}): a hang at 100 % is found by power and samples alone, and later"
    return lacking("counters", means, "counters need a Hopper GPU or newer")


def _nodes(gpus: Sequence[Gpu], world: World) -> CheckFinding:
    events = FileEvents()
    unwatched: dict[str, str] = {}
    try:
        for gpu in gpus:
            if gpu.mig is not None:
                continue
            path = f"{world.device_folder}/nvidia{gpu.minor}"
            why = str(gpu.minor) if isinstance(gpu.minor, Unknown) else events.watch_opens(gpu.label, path)
            if why is not None:
                unwatched[gpu.label] = why
    finally:
        events.close()
    if not unwatched:
        return ok(
            "device files",
            "opens are noticed within milliseconds, so fillers leave before a new process allocates memory",
        )
    why = next(iter(unwatched.values()))
    watches = world.proc.kernel_setting("fs/inotify/max_user_watches")
    means = (
        f"cannot watch the device file of GPU {', '.join(unwatched)} ({why}): fillers poll instead, and leave later"
    )
    return lacking("device files", means, f"make /dev/nvidia* visible; fs.inotify.max_user_watches is {watches}")
