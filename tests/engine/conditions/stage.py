"""Jobs of one real process, and conditions that look at them until they can tell."""

import os
import pathlib
from collections.abc import Callable
from typing import Any

from fallow.core.job import Job
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.engine.conditions.job import JobConditions
from fallow.engine.jobs.ports import JobCondition
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.readers.accounts import user_name
from fallow.readers.proc import Proc
from tests.conftest import Fallow
from tests.waiting import until


def job_of(pid: int) -> Job:
    """The job of a process that leads a session of its own."""
    stat = Proc().stat(pid)
    assert stat is not None
    return Job(pid, user_name(os.geteuid()), {Process(pid, stat.birth): "job"}, (), frozenset({pid}))


def conditions(folder: pathlib.Path, told: list[str] | None = None) -> JobConditions:
    """What makes conditions of this machine, in real time."""
    world = World(Fallow(folder).environ, simulate="4xH100", clock=SystemClock())
    say = (told if told is not None else []).append
    return JobConditions(world, KnownOwners(world, say), say)


def told_by(condition: JobCondition, job: Job, is_so: Callable[[Any], bool] = lambda _: True) -> Any:
    """What a condition says as soon as it can tell, and it is so."""

    def known(found: Any) -> bool:
        late = ("it did not answer", "it has not answered")  # on a busy machine
        begins = isinstance(found, Unknown) and (not found.asked or found.why.startswith(late))
        return not begins and is_so(found)

    return until(lambda: condition(job), known, pause_s=0.05)
