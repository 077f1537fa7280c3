"""Put together what watches the job of `fallow run`; the older tool in compat uses the same."""

import shlex
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.process import py_spy
from fallow.actuators.process.foreground_job import Supervision
from fallow.actuators.process.helpers import Helpers
from fallow.actuators.process.signals import demand_own_pids
from fallow.core.findings import gpu_key
from fallow.core.gpu import Gpu
from fallow.core.reasons import Reason
from fallow.core.units import printable, program_name
from fallow.core.value import value
from fallow.engine.history.journal import open_journal
from fallow.engine.history.run import Report, Run
from fallow.engine.jobs.after_exit import AfterExit, Then
from fallow.engine.jobs.foreground import ForegroundJobActions, ForegroundJobSource
from fallow.engine.jobs.job_state import JobRule
from fallow.engine.jobs.perform import host_actuators, nobody_to_signal, shortcomings
from fallow.engine.jobs.ports import JobActions, JobSource
from fallow.engine.jobs.supervisor import Result, Supervisor
from fallow.engine.jobs.usage import UsageMeter
from fallow.engine.machine.observe import MISSED_LOOKS
from fallow.engine.machine.world import World

Program = tuple[str, Sequence[str], Mapping[str, str]]
"""The path of a program, its command line, and its environment."""
Wrap = Callable[[JobSource, JobActions], tuple[JobSource, JobActions]]


@value
class Watch:
    """How `fallow run` watches its job, and what follows after it."""

    rule: JobRule
    every_s: float = 1.0
    thens: tuple[Then, ...] = ()
    until_nobody_is_left: bool = False
    """Go on after the first process of the job has ended, while others of it live."""
    ends_with_parent: bool = False
    """Ask the whole job to end when the process that started fallow ends."""


def supervise(
    run: Run,
    program: Program,
    gpus: Sequence[Gpu],
    watch: Watch,
    helpers: Helpers,
    wrap: Wrap = lambda source, actions: (source, actions),
) -> Result:
    """Start a job, and watch it until it has ended.

    `wrap` puts something around the source of the job and what acts on it, once it has started.
    """
    path, command, environ = program
    world = run.world
    started = Supervision(
        path,
        command,
        environ,
        table=world.proc,
        helpers=helpers,
        monotonic_s=world.clock.monotonic_s,
        ends_with_parent=watch.ends_with_parent,
    )
    try:
        source: JobSource = ForegroundJobSource(world, started, gpus, printable(shlex.join(command)))
        actions: JobActions = ForegroundJobActions(world, started, helpers)
        source, actions = wrap(source, actions)
        uuids = [str(gpu.uuid) for gpu in gpus]
        meter = UsageMeter(uuids, watch.rule.idle_below, watch.every_s * MISSED_LOOKS)
        supervisor = Supervisor(
            run,
            started,
            source,
            lambda _: actions,
            watch.rule,
            meter,
            every_s=watch.every_s,
            until_nobody_is_left=watch.until_nobody_is_left,
        )
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
        self._actuators = host_actuators(world, dry_run=False)
        actions = tuple(then.action for then in watch.thens)
        found = shortcomings(actions, self._actuators, world.environ, nobody_to_signal)
        if watch.rule.before_ask.stacks and (missing := py_spy.shortcoming(world.environ)) is not None:
            found.append(missing)
        if found:
            raise found[0]

    def run(self, program: Program, gpus: Sequence[Gpu]) -> tuple[Result, Callable[[], None]]:
        """Watch the job to its end. Return the result, and a function that does what follows."""
        run = Run(self._world, open_journal(self._world, self._say), Report(self._say))
        result = supervise(run, program, gpus, self._watch, self._actuators.helpers)

        def follow() -> None:
            stopped = result.stopped is not None
            keys = [gpu_key(gpu.uuid) for gpu in gpus]
            why = _why(program_name(program[1][0]), result)
            AfterExit(run, self._actuators).follow(self._watch.thens, why, stopped=stopped, keys=keys)
            run.journal.close()

        return result, follow


def _why(name: str, result: Result) -> Reason:
    if result.stopped is not None:
        return Reason("job_stopped", job=name, why=result.stopped)
    return Reason("job_ended", job=name, code="unknown" if result.ended is None else result.ended.exit_code)
