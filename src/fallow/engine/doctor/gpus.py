"""The driver and the cards: what can be read of them, and how soon a newcomer is heard."""

from collections.abc import Iterator, Sequence

from fallow.core.errors import NoDriver
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.unknown import Unknown
from fallow.engine.doctor.finding import (
    CheckFinding,
    broken,
    lacking,
    ok,
)
from fallow.engine.machine.world import World
from fallow.readers.file_events import FileEvents

_BURN_NEEDS, _SUSPEND_NEEDS = 12000, 12080
_BETWEEN_LOOKS_S = 0.2


def examine(world: World) -> Iterator[CheckFinding]:
    """Whatever the driver can be asked."""
    try:
        gpu_reader = world.gpu_reader
    except NoDriver as error:
        remedy = "install NVIDIA's driver, or add --simulate"
        yield broken(
            "driver",
            f"{error}: fallow sees no GPU".replace("; to try fallow without a GPU, add --simulate", ""),
            remedy,
        )
        return
    if world.simulated:
        yield ok("driver", f"not asked: {world.simulated} is simulated")
        yield ok("cards", f"{len(gpu_reader.look(Depth.GLANCE).gpus)} simulated GPUs")
        return
    yield from _versions(world)
    gpu_reader.look(Depth.LOOK)  # counters need two looks
    world.clock.sleep(_BETWEEN_LOOKS_S)
    gpus = gpu_reader.look(Depth.LOOK).gpus
    yield _answering(gpus)
    well = [gpu for gpu in gpus if gpu.trouble is None]
    yield _process_lists(well)
    yield _counters(well)
    yield _nodes(well, world)


def _versions(world: World) -> Iterator[CheckFinding]:
    from fallow.readers.nvml_reader import NvmlReader

    assert isinstance(world.gpu_reader, NvmlReader)
    driver, cuda = world.gpu_reader.versions()
    if isinstance(driver, Unknown):
        yield broken("driver", f"it is there, and its version is {driver}")
    else:
        yield ok("driver", f"version {driver}")
    if isinstance(cuda, Unknown):
        yield lacking("CUDA", f"what the driver speaks is {cuda}, so whether burn and suspend work is not known")
        return
    spoken = f"the driver speaks {cuda // 1000}.{cuda % 1000 // 10}"
    if cuda < _BURN_NEEDS:
        yield lacking("CUDA", f"{spoken}: fallow burn needs 12.0, suspending 12.8", "install a driver from 570 on")
    elif cuda < _SUSPEND_NEEDS:
        yield lacking("CUDA", f"{spoken}: fillers cannot be suspended, only ended", "install a driver from 570 on")
    else:
        yield ok("CUDA", f"{spoken}, which burn and suspending need")


def _answering(gpus: Sequence[Gpu]) -> CheckFinding:
    silent = [f"GPU {gpu.label}: {gpu.trouble}" for gpu in gpus if gpu.trouble is not None]
    if silent:
        means = f"{'; '.join(silent)}. They are unknown to every verb, and never picked"
        return broken("cards", means, "see dmesg for Xid messages; reset the card or restart the machine")
    return ok("cards", f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}, and all answer")


def _process_lists(gpus: Sequence[Gpu]) -> CheckFinding:
    unseen = {gpu.label: gpu.holders for gpu in gpus if isinstance(gpu.holders, Unknown)}
    if unseen:
        label, why = next(iter(unseen.items()))
        return broken(
            "process lists",
            f"who holds GPU {', '.join(unseen)} is {why} (GPU {label}), so they are unknown and never picked",
        )
    return ok("process lists", "who holds each GPU can be seen, whoever it is")


def _counters(gpus: Sequence[Gpu]) -> CheckFinding:
    blind = {gpu.label: gpu.counters for gpu in gpus if isinstance(gpu.counters, Unknown)}
    if not blind:
        return ok("counters", "hardware counters tell a hang from work")
    why = next(iter(blind.values()))
    means = f"GPU {', '.join(blind)} has none ({why}): a hang at 100 % is told by power and samples alone, and later"
    return lacking("counters", means, "counters need a Hopper card or a newer one")


def _nodes(gpus: Sequence[Gpu], world: World) -> CheckFinding:
    ears = FileEvents()
    deaf: dict[str, str] = {}
    try:
        for gpu in gpus:
            if gpu.mig is not None:
                continue
            path = f"{world.device_folder}/nvidia{gpu.minor}"
            why = str(gpu.minor) if isinstance(gpu.minor, Unknown) else ears.listen_for_visits(gpu.label, path)
            if why is not None:
                deaf[gpu.label] = why
    finally:
        ears.close()
    if not deaf:
        return ok("device nodes", "opens are heard within milliseconds, so fillers yield before a newcomer allocates")
    why = next(iter(deaf.values()))
    watches = world.proc.kernel_setting("fs/inotify/max_user_watches")
    means = f"opens of GPU {', '.join(deaf)} cannot be heard ({why}): fillers notice a newcomer by looking, and later"
    return lacking("device nodes", means, f"make /dev/nvidia* visible; fs.inotify.max_user_watches is {watches}")
