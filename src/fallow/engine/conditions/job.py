"""Make the conditions of jobs, for `fallow run`, the idle rules and `fallow idle` alike."""

from collections.abc import Callable, Sequence
from typing import assert_never

from fallow.engine.conditions.beside import Lanes
from fallow.engine.conditions.files import FileTouched
from fallow.engine.conditions.jupyter import KernelInUse
from fallow.engine.conditions.parse import Cpu, HttpBusy, Jupyter, Touched, parse_job_condition
from fallow.engine.conditions.processes import JobProcesses, UsesCpu
from fallow.engine.conditions.servers import AnswersBusy, Servers
from fallow.engine.conditions.shared import Shared
from fallow.engine.jobs.ports import JobCondition
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.readers.http import LocalHttp


class JobConditions:
    """Makes conditions that share what they read. One thread makes and calls them."""

    def __init__(
        self, world: World, owners: KnownOwners, say: Callable[[str], None], *, started_here: bool = False
    ) -> None:
        """`started_here`: the job was started by this process, as in `fallow run`."""
        self._world = world
        self._owners = owners
        self._lanes = Lanes(world.clock, say)
        self._shared = Shared(self._lanes)
        self._processes = JobProcesses(world, owners, started_here=started_here)
        self._servers = Servers(world.proc, LocalHttp(world.clock), self._shared)

    def begin(self, texts: Sequence[str]) -> tuple[JobCondition, ...]:
        """Return new conditions for one job, as people wrote them."""
        return tuple(self._begin(text.strip()) for text in texts)

    def _begin(self, text: str) -> JobCondition:
        wanted = parse_job_condition(text)
        match wanted:
            case Cpu(above=above):
                return UsesCpu(text, self._processes, self._lanes, above)
            case Jupyter(within_s=within_s):
                return KernelInUse(text, self._world, self._owners, within_s)
            case HttpBusy():
                return AnswersBusy(wanted, self._servers)
            case Touched():
                return FileTouched(wanted, self._world.clock, self._shared, text)
        assert_never(wanted)
