"""What the machine shows of its processes and people."""

import os
from collections.abc import Iterator

from fallow.core.gpu import Holder
from fallow.core.unknown import Unknown
from fallow.engine.doctor.finding import (
    CheckFinding,
    broken,
    lacking,
    ok,
)
from fallow.engine.machine.world import World

_BEFORE_FALLOW_S = 1.7e9


def processes(world: World) -> Iterator[CheckFinding]:
    """Whether those of others can be seen, and what they have open."""
    proc, me = world.proc, os.getpid()
    pids = proc.pids()
    if 1 not in pids:
        means = "only some are shown (hidepid): holders of other users have no name, command or job here"
        yield lacking("processes", means, "mount /proc with hidepid=0, or with gid= of a group that fallow is in")
    else:
        yield ok("processes", f"all {len(pids)} are shown, with user and command")
    others = [pid for pid in pids if pid != me and proc.user(pid) != world.user]
    hidden = [pid for pid in others if not proc.descriptors_visible(pid) and proc.stat(pid) is not None]
    if hidden:
        means = "what other users have open is hidden: fillers learn of them from the driver, some 40 ms later"
        yield lacking("open files", means, "run as root, or with the capability SYS_PTRACE")
    else:
        yield ok("open files", "who opens a card can be seen at once")


def container(world: World) -> Iterator[CheckFinding]:
    """Whether pids mean the same to us and to the driver, and in what we run."""
    mine = world.proc.describe(Holder(os.getpid(), 0))
    inside = [
        f"{what} {name}"
        for what, name in (
            ("pod", mine.kubernetes_pod),
            ("container", mine.container),
            ("Slurm job", mine.slurm_job),
        )
        if isinstance(name, str)
    ]
    where = f"in {', '.join(inside)}" if inside else "in no container that its cgroup names"
    if world.proc.in_pid_namespace_of_its_own():
        means = f"{where}, with pids of its own: holders outside have no name here, and cannot be signalled"
        yield lacking("container", means, "run fallow on the host, or the container with --pid=host")
    else:
        yield ok("container", f"{where}; pids are those of the machine")


def terminals(world: World) -> Iterator[CheckFinding]:
    """Whether people who are logged in can be seen."""
    people = world.terminals()
    there = people.people()
    if isinstance(there, Unknown):
        means = f"{there.why}: `--unless users` never lets guard act, and fillers stay away"
        yield lacking("terminals", means, "run where /dev/pts, utmp or logind is, or ignore people: --users ignore")
    else:
        places = ", ".join(people.sources())
        yield ok("terminals", f"people are seen by {places}; {len(there)} are here now")


def clock(world: World) -> Iterator[CheckFinding]:
    """Whether the wall clock can be right: protections end by it, and history is dated by it."""
    now_s = world.clock.wall_s()
    if now_s < _BEFORE_FALLOW_S:
        yield broken(
            "clock", "it shows a time before fallow was made: protections and reports go by it", "set the clock"
        )
    else:
        yield ok("clock", "it shows a time that can be; durations are counted by one that nobody can set")
