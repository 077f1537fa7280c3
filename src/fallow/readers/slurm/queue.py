"""Read the queue: `squeue` with fields that no user can write, one row a job. It decides which jobs there are.

A name or a comment may contain anything, also whole lines that look like those of another job, so none is asked for.
"""

import re
from collections.abc import Collection

from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.slurm.lists import gpu_count

FORMAT = "%A|%i|%u|%U|%S|%T|%D"
"""What is asked for: the job's own number, its number as people know it, user, uid, start, state, nodes."""
PENDING_FIELDS = (
    "JobID:|,NumNodes:|,NumTasks:|,tres-per-job:|,tres-per-node:|,tres-per-socket:|,tres-per-task:|,Reason:|"
    ",Partition:|"
)
_FOR_WANT_OF_GPUS = ("Resources", "Priority")
"""The reasons for which a job waits that would begin with more GPUs. Others hold it back, or its own user does."""
RUNNING = "RUNNING"
HELD_STATES = (RUNNING, "SUSPENDED", "STOPPED")
"""The states in which a job holds its GPUs. What is completing or being configured is left alone."""
_ROW = re.compile(
    r"([0-9]{1,10})\|([0-9_+\[\]%,.\-]{1,200})\|([^|\n]{1,256})\|([0-9]{1,10})\|([^|\s]{1,40})\|([A-Z_]{1,30})"
    r"\|([0-9]{1,9})(?:-[0-9]{1,9})?",
    re.ASCII,
)
_COUNT = re.compile(r"([0-9]{1,9})(?:-[0-9]{1,9})?", re.ASCII)


@value
class QueueRow:
    """One job as the queue lists it."""

    number: int
    """Its own number: a task of an array, and a component of a heterogeneous job, has one of its own."""
    id: str
    """Its number as people write it: `12`, `12_3`, `12+0`."""
    user: str
    uid: int
    start_wall_s: float | Unknown
    state: str
    nodes: int


def rows(text: str) -> tuple[QueueRow, ...] | Unknown:
    """Return the rows of `squeue --noheader --format FORMAT`; Unknown if one of them is none."""
    found = []
    for line in text.splitlines():
        row = _ROW.fullmatch(line.rstrip())
        if row is None:
            return Unknown("squeue answered with a line that is no job")
        found.append(
            QueueRow(
                number=int(row[1]),
                id=row[2],
                user=row[3],
                uid=int(row[4]),
                start_wall_s=wall_s(row[5]),
                state=row[6],
                nodes=int(row[7]),
            )
        )
    return tuple(found)


def wall_s(text: str) -> float | Unknown:
    """Return a time that Slurm printed as seconds since 1970: its own format names no time zone."""
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return float(text)
    return Unknown("Slurm does not say when")


def pending_gpus(text: str, background: Collection[str] = ()) -> int | Unknown:
    """Return how many GPUs the rows of `squeue --array --states=PENDING -O PENDING_FIELDS` wait for.

    `background`: the partitions whose jobs give way to all others; what waits in these alone is not counted.
    """
    total = 0
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 10:
            return Unknown("squeue answered with a line that is no job")
        if fields[7] not in _FOR_WANT_OF_GPUS or all(each in background for each in fields[8].split(",")):
            continue
        nodes, tasks = (_least(each) for each in fields[1:3])
        job, node, socket, task = (gpu_count(_none(each)) for each in fields[3:7])
        if nodes is None or tasks is None or job is None or node is None or socket is None or task is None:
            return Unknown("squeue does not say how many GPUs are waited for")
        total += job or node * nodes or socket * nodes or task * tasks
    return total


def _least(text: str) -> int | None:
    match = _COUNT.fullmatch(text)
    return int(match[1]) if match else None


def _none(text: str) -> str:
    return "" if text in ("N/A", "(null)") else text
