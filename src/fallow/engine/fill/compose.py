"""Put together the parts of `fallow fill`, for the command, the daemon and the older tools alike."""

from collections.abc import Callable, Sequence

from fallow.core.gpu import Gpu
from fallow.core.value import replace
from fallow.engine.fill.loop import FillLoop
from fallow.engine.fill.slot import FillerSlot
from fallow.engine.fill.start import (
    DryRunFillerStarter,
    FillerSpec,
    FillerStarter,
    SystemFillerStarter,
    check_command,
    check_log,
)
from fallow.engine.history.run import Report, Run


def filler_starter(run: Run) -> FillerStarter:
    """Return the starter of real fillers, or in a dry run the one that starts no process."""
    return DryRunFillerStarter() if run.dry_run else SystemFillerStarter(run.world)


def filler_slot(
    run: Run,
    spec: FillerSpec,
    gpus: tuple[Gpu, ...],
    starter: FillerStarter,
    prefix: str = "",
) -> FillerSlot:
    """Return a slot. Its sentences begin with the prefix, and in a dry run say so before it."""
    report = run.report.prefixed(f"dry run: {prefix}" if run.dry_run else prefix)
    return FillerSlot(replace(run, report=report), spec, gpus, starter)


def fill_loop(
    run: Run,
    slots: Sequence[tuple[FillerSpec, tuple[Gpu, ...]]],
    say: Callable[[str], None] | None = None,
) -> FillLoop:
    """Return the loop that fills these GPUs; raise FallowError if a command or a log cannot be used.

    `say` gets the sentences of the slots, if they go elsewhere than those of the loop.
    """
    for spec, gpus in slots:
        check_command(spec, run.world.environ)
        if not run.dry_run:
            check_log(spec, gpus)
    starter = filler_starter(run)
    slot_run = run if say is None else replace(run, report=Report(say))
    return FillLoop(run, [filler_slot(slot_run, spec, gpus, starter) for spec, gpus in slots])
