"""Check what the machine shows of its processes and logged-in people."""

import os
from collections.abc import Iterator

from fallow.core.unknown import Unknown
from fallow.engine.doctor.finding import CheckFinding, lacking, ok
from fallow.engine.machine.world import World


def processes(world: World) -> Iterator[CheckFinding]:
    """Check whether the processes of other users and their open files can be seen."""
    proc, me = world.proc, os.getpid()
    pids = proc.pids()
    if 1 not in pids:
        means = "only some are visible (hidepid): user, command and job of other users are not known"
        yield lacking("processes", means, "mount /proc with hidepid=0, or with gid= set to a group of this user")
    else:
        yield ok("processes", f"all {len(pids)} are visible, with user and command")
    others = [pid for pid in pids if pid != me and proc.user(pid) != world.user]
    hidden = [pid for pid in others if not proc.descriptors_visible(pid) and proc.stat(pid) is not None]
    if hidden:
        means = "the open files of other users are hidden: fillers notice new processes about 40 ms later"
        yield lacking("open files", means, "run as root, or with CAP_SYS_PTRACE")
    else:
        yield ok("open files", "processes that open a GPU are noticed at once")


def terminals(world: World) -> Iterator[CheckFinding]:
    """Check whether logged-in people can be noticed."""
    people = world.terminals()
    there = people.people()
    if isinstance(there, Unknown):
        means = f"{there.why}: a guard with `--unless users` never acts, and fillers never start"
        yield lacking("terminals", means, "run where /dev/pts or logind exists, or use --users ignore")
    else:
        places = ", ".join(people.sources())
        yield ok("terminals", f"people are noticed by {places}; {len(there)} logged in now")
