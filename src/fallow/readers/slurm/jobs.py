"""Read the details of jobs: `scontrol show job --details --oneliner`, where users' text stands between Slurm's own.

scontrol prints names, accounts and comments as they were given, also with spaces, equals signs and newlines, so a
line may look like another job's. A job that is printed twice is Unknown, and so never stopped. The user, the number
and the start of a job are compared with those of the queue, where no user can write.
"""

import re
from collections import Counter
from collections.abc import Iterator

from fallow.core.cluster import NodeGpu
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.readers.slurm import lists
from fallow.readers.slurm.queue import wall_s

_LONGEST_TEXT = 200
_HEAD = re.compile(
    r"JobId=([0-9]{1,10})"
    r"(?: ArrayJobId=([0-9]{1,10}) ArrayTaskId=([^ \n]{1,200})(?: ArrayTaskThrottle=[0-9]+)?)?"
    r"(?: HetJobId=([0-9]{1,10}) HetJobOffset=([0-9]{1,10}))? JobName=",
    re.ASCII,
)
_BEGINNING = "\nJobId="
_OWNER = re.compile(
    r"(?:\sHetJobIdSet=[0-9,\-]+)?"
    r"\sUserId=([^()\n]{1,256})\(([0-9]{1,10})\) GroupId=[^()\n]{1,256}\([0-9]{1,10}\) MCS_label=\S* Priority=\S+ "
    r"Nice=\S+ Account=(.*?) QOS=(\S*)(?: WCKey=.*?)? JobState=[A-Z_]{1,30} Reason=",
    re.ASCII | re.DOTALL,
)
# A text is searched several times as fast for what begins with a word, so the space before it is looked at last.
_BATCH = re.compile(r"BatchFlag=(?<=\sBatchFlag=)([0-9]) ", re.ASCII)
_START = re.compile(r"StartTime=(?<=\sStartTime=)(\S+) EndTime=", re.ASCII)
_PARTITION = re.compile(r"Partition=(?<=\sPartition=)(\S+) AllocNode:Sid=", re.ASCII)
_DETAIL = re.compile(r"Nodes=(?<=\sNodes=)(\S+) CPU_IDs=(\S*) Mem=[0-9]+ GRES=(\S*)(?=\s)", re.ASCII)
_TWICE = Unknown("scontrol prints it twice: a name or a comment contains a line that looks like it")


@value
class JobDetails:
    """What Slurm says of one job."""

    number: int
    id: str
    """`12`, `12_3` for a task of an array, `12+0` for a part of a heterogeneous job."""
    name: str
    user: str
    uid: int
    start_wall_s: float | Unknown
    interactive: bool
    partition: str
    account: str
    qos: str
    gpus: tuple[NodeGpu, ...] | Unknown
    """Empty for a job without GPUs; Unknown if Slurm does not say which ones it has."""


def details(text: str) -> dict[int, JobDetails | Unknown]:
    """Return the details of all jobs that were printed, by their number; Unknown for those that are doubtful."""
    records = [(head, record) for record in _records(text) if (head := _HEAD.match(record)) is not None]
    printed = Counter(head[1] for head, _ in records)
    return {int(head[1]): _TWICE if printed[head[1]] > 1 else _details(record, head) for head, record in records}


def _records(text: str) -> Iterator[str]:
    """Yield what begins as a line of a job does. Text of a user may begin one too."""
    for line in f"\n{text}".split(_BEGINNING)[1:]:
        yield f"{_BEGINNING[1:]}{line}\n"


def _details(record: str, head: "re.Match[str]") -> JobDetails | Unknown:
    parts = [pattern.search(record, head.end() - 1) for pattern in (_OWNER, _BATCH, _START, _PARTITION)]
    owner, batch, start, partition = parts
    if owner is None or batch is None or start is None or partition is None:
        return Unknown("scontrol prints it in a way that fallow does not know")
    number, offset = int(head[1]), head[5]
    if head[3] is not None:
        name = f"{head[2]}_{head[3]}"
    else:
        name = f"{head[4]}+{offset}" if head[4] is not None else str(number)
    return JobDetails(
        number=number,
        id=name,
        name=record[head.end() : owner.start()][:_LONGEST_TEXT],
        user=owner[1],
        uid=int(owner[2]),
        start_wall_s=wall_s(start[1]),
        interactive=batch[1] == "0",
        partition=_given(partition[1]),
        account=_given(owner[3]),
        qos=_given(owner[4]),
        gpus=_gpus(record, partition.end()),
    )


def _gpus(record: str, start: int) -> tuple[NodeGpu, ...] | Unknown:
    """Return the GPUs of the lines about nodes."""
    found: list[NodeGpu] = []
    for line in _DETAIL.finditer(record, start):
        nodes, indices = lists.nodes(line[1]), lists.gpu_indices(line[3])
        if nodes is None or indices is None:
            return Unknown("Slurm does not say which GPUs it holds")
        found += (NodeGpu(node, index) for node in nodes for index in indices)
    return tuple(found)


def _given(text: str) -> str:
    return "" if text in ("(null)", "N/A") else text[:_LONGEST_TEXT]
