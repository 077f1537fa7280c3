"""Wake parked jobs without a daemon: those that one of this user has written down, and those that the driver shows.

The driver keeps the memory of a parked process in that process, so whoever may signal it can have it put back.
"""

import os
from itertools import islice

from fallow.core.errors import NotPermitted
from fallow.core.findings import Outcome
from fallow.core.parked import ParkedJob
from fallow.core.process import DEEPEST, Process
from fallow.core.protections import OneProcess
from fallow.core.reasons import Reason
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.engine.history.run import Run
from fallow.engine.park.checkpointed import Checkpoints
from fallow.engine.park.record import ParkRecord
from fallow.engine.park.room import why_no_room_now
from fallow.engine.park.wishes import WakeWish, permitted


class NoRoom(Exception):
    """There is no room for a job on its GPUs."""


def wake_alone(run: Run, wish: WakeWish) -> list[tuple[ParkedJob, Outcome]]:
    """Wake the jobs that are meant, one after the other; raise NoRoom, with the reason, if one has no room."""
    world = run.world
    record, checkpoints = ParkRecord(world), Checkpoints(world)
    known = record.read()
    jobs = permitted(known, wish)
    if not jobs and isinstance(wish.subject, OneProcess):
        jobs = _shown_by_the_driver(run, checkpoints, wish.subject)
    done: list[tuple[ParkedJob, Outcome]] = []
    for job in jobs:
        if job in known and checkpoints.is_parked(job) is False:
            known = tuple(each for each in known if each is not job)
            record.write(known)
            done.append((job, Outcome(True, "it was awake already")))
            continue
        why_not = why_no_room_now(world, job)
        if why_not is not None:
            raise NoRoom(f"{job.subject} was not woken: {why_not}")
        run.journal.action(job.subject, "wake the job", Reason("as_asked"), job.keys)
        outcome = checkpoints.wake(job)
        run.journal.outcome(job.subject, "wake the job", outcome.words, job.keys)
        done.append((job, outcome))
        if outcome.ok and job in known:
            known = tuple(each for each in known if each is not job)
            record.write(known)
    return done


def _shown_by_the_driver(run: Run, checkpoints: Checkpoints, meant: OneProcess) -> list[ParkedJob]:
    """Return the process and all below it, if the driver says that something of that is parked."""
    proc = run.world.proc
    stat = proc.stat(meant.pid)
    if stat is None or (meant.birth and stat.birth != meant.birth):
        return []
    tree = (Process(stat.pid, stat.birth), *(Process(each.pid, each.birth) for each in proc.descendants(stat.pid)))
    if any("fallow" in proc.trusted_names(pid) for pid in islice(proc.ancestors(meant.pid), DEEPEST)):
        return []  # a filler, which its keeper wakes
    user, command = proc.user(meant.pid), proc.command(meant.pid)
    name = f"job {meant.pid} ({'?' if isinstance(command, Unknown) else program_name(command)})"
    job = ParkedJob(tree[0], tree, "somebody" if isinstance(user, Unknown) else user, name, (), 0.0)
    if checkpoints.is_parked(job) is not True:
        return []
    if os.geteuid() not in (0, proc.uid(meant.pid)):
        raise NotPermitted(f"{job.subject} is parked; only {job.user} and root may wake it")
    return [job]
