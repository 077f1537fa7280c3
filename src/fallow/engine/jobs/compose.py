"""Put together what watches the job of `fallow run`; the older tool in compat uses the same."""

import shlex
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.process import py_spy
from fallow.actuators.process.foreground_job import Supervision
from fallow.actuators.process.signals import demand_own_pids
from fallow.core.gpu import Gpu
from fallow.core.units import printable
from fallow.core.value import value
from fallow.engine.history.journal import open_journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.foreground import ForegroundJobActions, ForegroundJobSource
from fallow.engine.jobs.job_state import JobRule
from fallow.engine.jobs.ports import JobSource
from fallow.engine.jobs.supervisor import Result, Supervisor
from fallow.engine.jobs.usage import UsageMeter
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.machine.world import World

Program = tuple[str, Sequence[str], Mapping[str, str]]
"""The path of a program, its command line, and its environment."""
Wrap = Callable[[JobSource], JobSource]


@value
class Watch:
    """How `fallow run` watches its job."""

    rule: JobRule
    every_s: float = 1.0
    ends_with_parent: bool = False
    """Ask the whole job to end when the process that started fallow ends."""


def supervise(
    run: Run,
    program: Program,
    gpus: Sequence[Gpu],
    watch: Watch,
    wrap: Wrap = lambda source: source,
) -> Result:
    """Start a job, and watch it until it has ended.

    `wrap` puts something around the source of the job.
    """
    path, command, environ = program
    world = run.world
    started = Supervision(
        path,
        command,
        environ,
        table=world.proc,
        monotonic_s=world.clock.monotonic_s,
        ends_with_parent=watch.ends_with_parent,
    )
    try:
        source = wrap(ForegroundJobSource(world, started, gpus, printable(shlex.join(command))))
        actions = ForegroundJobActions(world, started)
        uuids = [str(gpu.uuid) for gpu in gpus]
        meter = UsageMeter(uuids, watch.rule.idle_below, watch.every_s * MISSED_LOOKS)
        supervisor = Supervisor(run, started, source, lambda _: actions, watch.rule, meter, every_s=watch.every_s)
        return supervisor.run()
    finally:
        started.close()


class WatchedRun:
    """A job of `fallow run` that is watched. Made before anything is claimed: what cannot work is refused then."""

    def __init__(self, world: World, say: Callable[[str], None], watch: Watch) -> None:
        demand_own_pids(world.proc)
        self._world = world
        self._say = say
        self._watch = watch
        if watch.rule.before_ask.stacks and (missing := py_spy.shortcoming(world.environ)) is not None:
            raise missing

    def run(self, program: Program, gpus: Sequence[Gpu]) -> Result:
        """Watch the job to its end."""
        run = Run(self._world, open_journal(self._world, self._say), Report(self._say))
        try:
            return supervise(run, program, gpus, self._watch)
        finally:
            run.journal.close()
