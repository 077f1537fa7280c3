"""Parse whom a person means, and decide whether somebody is meant. Each command names the kinds that it takes.

3   0,2   0-3   gpu:3   GPU-…      these GPUs
pid:1234   1234                    a process; a number that is a GPU is the GPU
user:ada   mine                    a user; oneself
container:NAME   unit:NAME   notebook:NAME
slurm:1234   node:NAME   …         a part of a cluster, as core/cluster_names.py has it
all
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import assert_never

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu, Holder
from fallow.core.job import Job
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.ports import Depth
from fallow.core.process import DEEPEST, ProcessTable
from fallow.core.protections import ClusterPart, Everything, OneClusterJob, OneGpu, OneProcess, OneUser, Target
from fallow.core.reservations import Claim
from fallow.core.selection import select
from fallow.core.units import is_number
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.machine.world import World
from fallow.readers.accounts import is_user, names, user_name

_OWNERS = {"container": OwnerKind.CONTAINER, "unit": OwnerKind.SERVICE, "notebook": OwnerKind.NOTEBOOK}
_EXAMPLES = {"gpu": "3", "pid": "1234"}
_SHORTEST_ID = 4


@value
class SomeGpus:
    """Some GPUs, by their UUIDs, and their labels for people."""

    uuids: frozenset[str]
    labels: str
    one: str | None
    """The UUID, if it is one GPU or one card with all its instances."""

    def __str__(self) -> str:
        return f"GPU {self.labels}"


@value
class NamedOwner:
    """A container, a unit or a notebook, as a person names it."""

    kind: OwnerKind
    name: str

    def __str__(self) -> str:
        return f"{'unit' if self.kind is OwnerKind.SERVICE else self.kind.value} {self.name}"


JobSubject = Everything | SomeGpus | OneProcess | OneUser | NamedOwner
Subject = JobSubject | OneClusterJob | ClusterPart


@value
class Takes:
    """What a command takes as a subject."""

    kinds: tuple[str, ...]
    way: str
    """What to write instead of a word that names nothing."""
    gone: tuple[str, ...] = ()
    """The kinds of which one is taken that is not there any more, or not here."""
    numbers: bool = False
    """Whether a number that is no GPU is a process."""


_OF_JOBS = ("gpu", "pid", "user", *_OWNERS, "mine", "all")
_JOBS = "write a GPU, pid:PID, user:NAME, container:NAME, unit:NAME, notebook:NAME, mine or all"
_IN_CLUSTER = "or of a cluster slurm:ID, deployment:NAMESPACE/NAME, node:NAME"
TO_ASK_IDLE = Takes(_OF_JOBS, _JOBS)
TO_WAKE = Takes(_OF_JOBS, _JOBS, numbers=True)
TO_STOP = Takes(_OF_JOBS, _JOBS, gone=("pid",), numbers=True)
OF_ANOTHER = Takes(_OF_JOBS, _JOBS, gone=("pid", "user", "number"), numbers=True)
"""What somebody else has parsed before, who may see other processes and users."""
TO_PROTECT = Takes(("gpu", "pid", "user", "cluster", "all"), f"write all, a GPU, pid:PID, user:NAME, {_IN_CLUSTER}")
TO_EXPLAIN = Takes(
    ("gpu", "pid", "user", "mine"),
    f"write a GPU, pid:PID, user:NAME, mine, {_IN_CLUSTER}",
    gone=("pid", "user", "number"),
    numbers=True,
)
Gpus = Callable[[], Sequence[Gpu]]


def job_subject(text: str, takes: Takes, gpus: Gpus, table: ProcessTable, me: str) -> JobSubject:
    """Return which jobs of this machine a person means; `me` is the user of `mine`."""
    found = _parsed(text, takes, gpus, table, me)
    assert isinstance(found, JobSubject), "a command about jobs takes nothing of a cluster"
    return found


def job_subjects(texts: Sequence[str], takes: Takes, world: World) -> list[JobSubject]:
    """Return which jobs a person means by several words; the GPUs are looked at once, if at all."""
    looked: list[Sequence[Gpu]] = []

    def gpus() -> Sequence[Gpu]:
        if not looked:
            looked.append(world.gpu_reader.look(Depth.HOLDERS).gpus)
        return looked[0]

    return [job_subject(text, takes, gpus, world.proc, world.user) for text in texts]


def target_of(text: str, takes: Takes, gpus: Gpus, table: ProcessTable, me: str) -> Target:
    """Return what a person protects or asks about: of GPUs one, by its UUID."""
    found = _parsed(text, takes, gpus, table, me)
    assert not isinstance(found, NamedOwner), "a command about targets takes no owners"
    if not isinstance(found, SomeGpus):
        return found
    if found.one is None:
        way = "name one at a time, or all" if "all" in takes.kinds else "name one at a time"
        raise WrongUsage(f"{text!r} is not one GPU that can be named", way)
    return OneGpu(found.one)


def _parsed(text: str, takes: Takes, gpus: Gpus, table: ProcessTable, me: str) -> Subject:
    """Return the subject; raise WrongUsage for what can mean nothing. `gpus` is called only if GPUs may be meant."""
    kind, colon, rest = text.partition(":")
    if text in ("all", "mine"):
        if text not in takes.kinds:
            raise WrongUsage(f"{text!r} names nothing here", takes.way)
        return OneUser(me) if text == "mine" else Everything()
    if not colon or not kind.isalpha():
        return _gpus_or_process(text, takes, gpus, table)
    if kind not in takes.kinds:
        return _of_cluster(text, takes)
    if not rest.strip():
        raise WrongUsage(f"{text!r} names nothing", f"write it as {kind}:{_EXAMPLES.get(kind, 'NAME')}")
    match kind:
        case "gpu":
            return _gpus(rest, gpus())
        case "pid":
            return _process(rest, table, gone_is_fine="pid" in takes.gone)
        case "user":
            return _user(rest, gone_is_fine="user" in takes.gone)
        case _:
            return NamedOwner(_OWNERS[kind], rest)


def _of_cluster(text: str, takes: Takes) -> OneClusterJob | ClusterPart:
    from fallow.core.cluster_names import KIND_WORDS, cluster_target, names_cluster

    if names_cluster(text):
        if "cluster" not in takes.kinds:
            raise WrongUsage(f"{text!r} is of a cluster, and this is about jobs of this machine", takes.way)
        return cluster_target(text)
    kind = text.partition(":")[0]
    raise WrongUsage(f"{text!r} names nothing", did_you_mean(kind, (*takes.kinds, *KIND_WORDS)) or takes.way)


def _gpus_or_process(text: str, takes: Takes, gpus: Gpus, table: ProcessTable) -> SomeGpus | OneProcess:
    try:
        return _gpus(text, gpus())
    except WrongUsage as error:
        if is_number(text):
            if takes.numbers and ("number" in takes.gone or table.stat(int(text)) is not None):
                return _process(text, table, gone_is_fine=True)
            raise WrongUsage(error.sentence, f"{error.way}; for a process write pid:{text}") from None
        if is_user(text):
            raise WrongUsage(error.sentence, f"for a user write user:{text}") from None
        if text.isalpha():
            raise WrongUsage(error.sentence, did_you_mean(text, takes.kinds) or takes.way) from None
        raise


def _gpus(word: str, there: Sequence[Gpu]) -> SomeGpus:
    of_card = [gpu for gpu in there if gpu.mig is not None and gpu.mig.parent_uuid == word]
    meant = of_card or select(word, there)
    nameless = next((gpu for gpu in meant if isinstance(gpu.uuid, Unknown)), None)
    if nameless is not None:
        raise WrongUsage(f"GPU {nameless.label} cannot be named now: its UUID is {nameless.uuid}")
    cards = {str(gpu.uuid) if gpu.mig is None else str(gpu.mig.parent_uuid) for gpu in meant}
    one = str(meant[0].uuid) if len(meant) == 1 and not of_card else next(iter(cards)) if len(cards) == 1 else None
    return SomeGpus(frozenset(str(gpu.uuid) for gpu in meant), ",".join(gpu.label for gpu in meant), one)


def _process(text: str, table: ProcessTable, *, gone_is_fine: bool) -> OneProcess:
    """Return the process, by `PID` or `PID@BIRTH`; with 0 for the birth of one that has ended."""
    pid, at, birth = text.partition("@")
    if not is_number(pid) or (at and not is_number(birth)):
        raise WrongUsage(f"{text!r} is not a process; write pid:12345")
    stat = table.stat(int(pid))
    found = 0 if stat is None else stat.birth
    if not gone_is_fine and (not found or (at and found != int(birth))):
        raise WrongUsage(f"there is no process {text}")
    return OneProcess(int(pid), int(birth) if at else found)


def _user(text: str, *, gone_is_fine: bool) -> OneUser:
    """Return the user by name; a number is a user too, even without a name."""
    if is_number(text):
        return OneUser(user_name(int(text)))
    if not gone_is_fine and not is_user(text):
        raise WrongUsage(f"there is no user {text!r} on this machine", did_you_mean(text, names()))
    return OneUser(text)


@value
class Who:
    """Somebody who has GPUs: a job, a process that holds one, or one that has claimed it. None is not known."""

    uuids: frozenset[str] = frozenset()
    births: Mapping[int, int | None] | None = None
    """The births of its processes, and of those above them; None for one of which the pid alone counts."""
    users: frozenset[str] | None = None
    owner: Owner | None = None


def who_is(job: Job) -> Who:
    """Return the job as somebody."""
    return Who(frozenset(job.uuids), {each.pid: each.birth for each in job.members}, frozenset(job.users), job.owner)


def who_holds(holder: Holder, table: ProcessTable) -> Who:
    """Return a process that holds a GPU as somebody."""
    user, owner = holder.user, holder.owner
    return Who(
        births=_lineage(holder.pid, table),
        users=None if isinstance(user, Unknown) else frozenset({user}),
        owner=None if isinstance(owner, Unknown) else owner,
    )


def who_claimed(claim: Claim, table: ProcessTable) -> Who:
    """Return who has claimed a GPU as somebody: a claim is of no owner."""
    return Who(
        births=None if claim.pid is None else _lineage(claim.pid, table),
        users=None if claim.user is None else frozenset({claim.user}),
        owner=NO_OWNER,
    )


def matches(subject: JobSubject, who: Who) -> bool | None:
    """Return whether somebody is meant; None if that is not known."""
    match subject:
        case Everything():
            return True
        case SomeGpus(uuids=uuids):
            return not uuids.isdisjoint(who.uuids)
        case OneProcess(pid=pid, birth=birth):
            return None if who.births is None else pid in who.births and who.births[pid] in (birth, None)
        case OneUser(name=name):
            return None if who.users is None else who.users == {name}  # what is others' too is not meant by one name
        case NamedOwner(kind=kind, name=name):
            if who.owner is None or who.owner.kind is not kind:
                return None if who.owner is None else False
            return _has_name(who.owner, name) or (None if isinstance(who.owner.name, Unknown) else False)
    assert_never(subject)


def _has_name(owner: Owner, typed: str) -> bool:
    """Return whether a person may call an owner so: its name, without its ending too, its id, how the id begins."""
    known = {owner.id} if isinstance(owner.name, Unknown) else {owner.id, owner.name}
    known |= {name.removesuffix(ending) for name in known for ending in (".service", ".ipynb")}
    begins = owner.kind is OwnerKind.CONTAINER and len(typed) >= _SHORTEST_ID and owner.id.startswith(typed)
    return begins or typed in known


def _lineage(pid: int, table: ProcessTable) -> dict[int, int | None]:
    return dict.fromkeys((pid, *islice(table.ancestors(pid), DEEPEST)))
