"""The file that says which jobs are parked, so that a daemon that starts again, or a command, knows them.

One line of JSON for each parked process; lines of one job have the same first process. It is written before a job is
touched: a process that is neither in the file nor off its GPU was never parked.
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from fallow.actuators.files import state_folder
from fallow.actuators.files.atomic_file import replace_file
from fallow.core.errors import FallowError
from fallow.core.owner import OwnerKind
from fallow.core.parked import ParkedJob, ParkStage, ParkWay
from fallow.core.process import Process
from fallow.core.value import replace
from fallow.engine.machine.world import World

_MOST_BYTES = 4 << 20


class ParkRecord:
    """The file of one user's parked jobs on this machine."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._name = "parked" if world.simulated is None else "parked-simulated"

    def read(self) -> tuple[ParkedJob, ...]:
        """Return the jobs of the file whose processes live; none if there is no file, or it cannot be read."""
        try:
            folder = state_folder.prepared(self._world.state_folder, make=False)
            with open(os.path.join(folder, self._name), encoding="utf-8", errors="replace") as file:
                lines = file.read(_MOST_BYTES).splitlines()
        except (OSError, FallowError):
            return ()
        jobs: dict[Process, ParkedJob] = {}
        for line in lines:
            with suppress(ValueError, TypeError, LookupError, RecursionError, OverflowError):
                one, process = _job(json.loads(line))
                known = jobs.get(one.first, one)
                jobs[one.first] = replace(known, processes=tuple(dict.fromkeys((*known.processes, process))))
        return tuple(filter(None, (self.living(job) for job in jobs.values())))

    def living(self, job: ParkedJob) -> ParkedJob | None:
        """Return the job with those of its processes that live; None if none does."""
        alive = tuple(each for each in job.processes if not self._world.proc.has_ended(each.pid, each.birth))
        if not alive:
            return None
        return job if alive == job.processes else replace(job, processes=alive)

    def write(self, jobs: Iterable[ParkedJob]) -> None:
        """Replace the file; raise FallowError if that fails."""
        lines = [json.dumps(_line(job, process)) for job in jobs for process in job.processes]
        try:
            folder = state_folder.prepared(self._world.state_folder)
            path = state_folder.private_file(folder, self._name)
            replace_file(path, "".join(f"{line}\n" for line in lines))
        except OSError as error:
            raise FallowError(f"{self._name} cannot be written: {error.strerror}") from None


def _line(job: ParkedJob, process: Process) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "birth": process.birth,
        "first": [job.first.pid, job.first.birth],
        "user": job.user,
        "name": job.name,
        "gpus": job.gpus,
        "since_wall_s": job.since_wall_s,
        "way": job.way,
        "owner": job.owner,
        "server": None if job.server is None else [job.server.pid, job.server.birth],
        "port": job.port,
        "server_uid": job.server_uid,
    }


def _job(facts: Mapping[str, Any]) -> tuple[ParkedJob, Process]:
    pid, birth = facts["first"]
    kind, identity, name = facts["owner"]
    server = facts["server"]
    job = ParkedJob(
        first=Process(int(pid), int(birth)),
        processes=(),
        user=str(facts["user"]),
        name=str(facts["name"]),
        gpus=tuple((str(uuid), int(size)) for uuid, size in facts["gpus"]),
        since_wall_s=float(facts["since_wall_s"]),
        way=ParkWay(facts["way"]),
        stage=ParkStage.PARKED,
        owner=(OwnerKind(kind).value, str(identity), str(name)),
        server=None if server is None else Process(int(server[0]), int(server[1])),
        port=int(facts["port"]),
        server_uid=None if facts["server_uid"] is None else int(facts["server_uid"]),
    )
    process = Process(int(facts["pid"]), int(facts["birth"]))
    if process.pid < 1:
        raise ValueError("no process has that pid")
    return job, process
