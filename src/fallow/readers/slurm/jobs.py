"""Read the details of jobs: `scontrol show job --details --oneliner`, where users' text stands between Slurm's own.

scontrol prints names, accounts and comments as they were given, also with spaces, equals signs and newlines. So a
line may look like another job's, and a field may look like Slurm's. A field is believed only if it is there once in
all that is printed of the job. A job is believed only if it is printed once, and what is printed after it is a job
that the queue lists and that is printed once: a name that forges a line cuts its own line in two. What is doubtful is
Unknown, and is asked for alone (`details_of`); what is doubtful even then is never stopped.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator

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
    r"Nice=\S+ Account=(.*?) QOS=(\S*)(?: WCKey=.*?)? JobState=([A-Z_]{1,30}) Reason=",
    re.ASCII | re.DOTALL,
)
# A text is searched several times as fast for what begins with a word, so the space before it is looked at last.
_BATCH = re.compile(r"BatchFlag=(?<=\sBatchFlag=)([0-9]) ", re.ASCII)
_START = re.compile(r"StartTime=(?<=\sStartTime=)(\S+) EndTime=", re.ASCII)
_PARTITION = re.compile(r"Partition=(?<=\sPartition=)(\S+) AllocNode:Sid=", re.ASCII)
_DETAIL = re.compile(r"Nodes=(?<=\sNodes=)(\S+) CPU_IDs=(\S*) Mem=[0-9]+ GRES=(\S*)(?=\s)", re.ASCII)
_FIELDS = ("UserId=", "JobState=", "BatchFlag=", "StartTime=", "Partition=")
_ONCE = re.compile(rf"\s({'|'.join(_FIELDS)})", re.ASCII)
_FORGED = Unknown("a name or a comment contains lines that look like those of a job")


@value
class JobDetails:
    """What Slurm says of one job, for certain."""

    number: int
    id: str
    """`12`, `12_3` for a task of an array, `12+0` for a part of a heterogeneous job."""
    leader: int
    """The number of the heterogeneous job that it is part of; else its own."""
    name: str
    user: str
    uid: int
    state: str
    start_wall_s: float | Unknown
    interactive: bool
    partition: str
    account: str
    qos: str
    gpus: tuple[NodeGpu, ...] | Unknown
    """Empty for a job without GPUs; Unknown if Slurm does not say which ones it has."""


def details(text: str, listed: Container[int]) -> dict[int, JobDetails | Unknown]:
    """Return the details of all jobs that were printed, by their number; Unknown for those that are doubtful.

    `listed` are the numbers that the queue has.
    """
    records = [(_HEAD.match(record), record) for record in _records(text)]
    printed = Counter(int(head[1]) for head, _ in records if head is not None)
    found: dict[int, JobDetails | Unknown] = {}
    before: int | None = None
    for head, record in records:
        number = None if head is None else int(head[1])
        is_one = number in listed and number is not None and printed[number] == 1
        if not is_one and before is not None:
            found[before] = _FORGED  # it may be its text that begins here
        if head is not None and number is not None and number in listed:
            found[number] = _details(record, head) if is_one else _FORGED
            before = number
    return found


def details_of(text: str, number: int) -> JobDetails | Unknown:
    """Return the details of the one job that was asked for: all of the text is its own."""
    head = _HEAD.match(text)
    if head is None or int(head[1]) != number:
        return Unknown("scontrol answered with another job")
    return _details(text, head)


def _records(text: str) -> Iterator[str]:
    """Yield what begins as a line of a job does. Text of a user may begin one too."""
    for line in f"\n{text}".split(_BEGINNING)[1:]:
        yield f"{_BEGINNING[1:]}{line}\n"


def _details(record: str, head: "re.Match[str]") -> JobDetails | Unknown:
    if not _each_once(record, head.end() - 1):
        return Unknown("its name, account or comment reads like a field of Slurm")
    parts = [pattern.search(record, head.end() - 1) for pattern in (_OWNER, _BATCH, _START, _PARTITION)]
    owner, batch, start, partition = parts
    if owner is None or batch is None or start is None or partition is None:
        return Unknown("scontrol prints it in a way that fallow does not know")
    gpus = _gpus(record, head.end() - 1, partition.end())
    if gpus is None:
        return Unknown("its name, account or comment reads like a list of GPUs")
    number, offset = int(head[1]), head[5]
    if head[3] is not None:
        name = f"{head[2]}_{head[3]}"
    else:
        name = f"{head[4]}+{offset}" if head[4] is not None else str(number)
    return JobDetails(
        number=number,
        id=name,
        leader=int(head[4]) if head[4] is not None else number,
        name=record[head.end() : owner.start()][:_LONGEST_TEXT],
        user=owner[1],
        uid=int(owner[2]),
        state=owner[5],
        start_wall_s=wall_s(start[1]),
        interactive=batch[1] == "0",
        partition=_given(partition[1]),
        account=_given(owner[3]),
        qos=_given(owner[4]),
        gpus=gpus,
    )


def _each_once(record: str, start: int) -> bool:
    """Return whether each of Slurm's fields is there once. Within another word it is not one of them."""
    if all(record.count(field, start) == 1 for field in _FIELDS):
        return True
    seen = [match[1] for match in _ONCE.finditer(record, start)]
    return len(seen) == len(set(seen)) == len(_FIELDS)


def _gpus(record: str, start: int, fixed: int) -> tuple[NodeGpu, ...] | Unknown | None:
    """Return the GPUs of the lines about nodes; None if users' text looks like one of these lines.

    Slurm's own follow each other, after the fields up to `fixed`, and nothing of a user stands between them.
    """
    found: list[NodeGpu] = []
    at = -1
    doubt: Unknown | None = None
    for line in _DETAIL.finditer(record, start):
        if line.start() < fixed or (at >= 0 and record[at : line.start()].strip(" \n")):
            return None
        at = line.end()
        nodes, indices = lists.nodes(line[1]), lists.gpu_indices(line[3])
        if nodes is None or indices is None:
            doubt = Unknown("Slurm does not say which GPUs it holds")
            continue
        found += (NodeGpu(node, index) for node in nodes for index in indices)
    return tuple(found) if doubt is None else doubt


def _given(text: str) -> str:
    return "" if text in ("(null)", "N/A") else text[:_LONGEST_TEXT]
