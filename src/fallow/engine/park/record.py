"""The file that says which jobs are parked, so that a daemon that starts again, or a command, knows them.

One line of JSON for each parked job. It is written before a job is
touched: a process that is neither in the file nor off its GPU was never parked.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from fallow.actuators.files.atomic_file import replace_file
from fallow.actuators.files.own_folder import own_folder
from fallow.core.errors import FallowError
from fallow.core.owner import OwnerKind
from fallow.core.parked import ParkedJob, ParkStage
from fallow.core.process import Process
from fallow.core.value import replace
from fallow.engine.machine.world import World

_NAME = "parked"
_PIDS = 1 << 22  # the kernel's own limit


class ParkRecord:
    """The file of one user's parked jobs on this machine."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self) -> tuple[ParkedJob, ...]:
        """Return the jobs of the file whose processes live; none if there is no file, or it cannot be read."""
        try:
            folder = own_folder(self._world.state_folder, make=False)
            with open(os.path.join(folder, _NAME), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except (OSError, FallowError):
            return ()
        jobs: dict[Process, ParkedJob] = {}
        for line in lines:
            with suppress(ValueError, TypeError, LookupError, RecursionError, OverflowError):
                job = _job(json.loads(line))
                jobs[job.first] = job
        return tuple(filter(None, (self.living(job) for job in jobs.values())))

    def living(self, job: ParkedJob) -> ParkedJob | None:
        """Return the job with those of its processes that live; None if all that held its GPUs have ended."""
        alive = tuple(filter(self._lives, job.processes))
        if not (alive and any(map(self._lives, job.holders))):
            return None
        return job if alive == job.processes else replace(job, processes=alive)

    def write(self, jobs: Iterable[ParkedJob]) -> None:
        """Replace the file; raise FallowError if that fails."""
        text = "".join(f"{json.dumps(_line(job))}\n" for job in jobs)
        try:
            replace_file(os.path.join(own_folder(self._world.state_folder), _NAME), text)
        except OSError as error:
            raise FallowError(f"{_NAME} cannot be written: {error.strerror}") from None

    def _lives(self, process: Process) -> bool:
        return not self._world.proc.has_ended(process.pid, process.birth)


def _line(job: ParkedJob) -> dict[str, Any]:
    return {
        "first": _pair(job.first),
        "processes": [_pair(each) for each in job.processes],
        "holders": [_pair(each) for each in job.holders],
        "user": job.user,
        "name": job.name,
        "gpus": job.gpus,
        "since_wall_s": job.since_wall_s,
        "owner": job.owner,
    }


def _job(facts: Mapping[str, Any]) -> ParkedJob:
    kind, identity, name = facts["owner"]
    return ParkedJob(
        first=_process(facts["first"]),
        processes=tuple(dict.fromkeys(map(_process, facts["processes"]))),
        user=str(facts["user"]),
        name=str(facts["name"]),
        gpus=tuple((str(uuid), int(size)) for uuid, size in facts["gpus"]),
        since_wall_s=float(facts["since_wall_s"]),
        stage=ParkStage.PARKED,
        owner=(OwnerKind(kind).value, str(identity), str(name)),
        holders=tuple(dict.fromkeys(map(_process, facts["holders"]))),
    )


def _process(facts: Sequence[Any]) -> Process:
    pid, birth = facts
    if not 0 < int(pid) < _PIDS:
        raise ValueError("no process has that pid")
    return Process(int(pid), int(birth))


def _pair(process: Process) -> list[int]:
    return [process.pid, process.birth]
