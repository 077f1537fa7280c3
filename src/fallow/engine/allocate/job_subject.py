"""Parse which jobs a person means: those on GPUs, of a process, of a user, of an owner, one's own, or all.

3   0,2   0-3   gpu:3   GPU-…      the jobs on these GPUs
pid:1234   1234                    the job of a process; a number that is a GPU is the GPU
user:ada   mine                    the jobs of a user; one's own
container:NAME   unit:NAME   notebook:NAME
all
"""

from collections.abc import Callable, Sequence
from typing import assert_never

from fallow.core.did_you_mean import did_you_mean
from fallow.core.errors import WrongUsage
from fallow.core.gpu import Gpu
from fallow.core.job import Job
from fallow.core.owner import Owner, OwnerKind
from fallow.core.ports import Depth
from fallow.core.process import ProcessTable
from fallow.core.protections import Everything, OneProcess, OneUser
from fallow.core.selection import select
from fallow.core.units import is_number
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.allocate.protection_target import target_among
from fallow.engine.machine.world import World

OWNER_KINDS = {
    "container": OwnerKind.CONTAINER,
    "unit": OwnerKind.SERVICE,
    "notebook": OwnerKind.NOTEBOOK,
}
_KINDS = ("gpu", "pid", "user", *OWNER_KINDS)
_WAY = "write a GPU, pid:PID, user:NAME, container:NAME, unit:NAME, notebook:NAME, mine or all"
_EXAMPLES = {"gpu": "3", "pid": "1234"}
_SHORTEST_ID = 4


@value
class SomeGpus:
    """Some GPUs, by their UUIDs, and their labels for people."""

    uuids: frozenset[str]
    labels: str

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


def job_subject(text: str, gpus: Callable[[], Sequence[Gpu]], table: ProcessTable, me: str) -> JobSubject:
    """Return whom a person means; `me` is the user of `mine`. It may have ended, or not be there at all.

    Raise WrongUsage for what can mean nothing.
    """
    kind, colon, rest = text.partition(":")
    if text == "mine":
        return OneUser(me)
    if colon and kind in _KINDS and not rest:
        raise WrongUsage(f"{text!r} names nothing", f"write it as {kind}:{_EXAMPLES.get(kind, 'NAME')}")
    if colon and kind in OWNER_KINDS:
        return NamedOwner(OWNER_KINDS[kind], rest)
    if colon and kind.isalpha() and kind not in _KINDS:
        from fallow.core.cluster_names import KIND_WORDS

        if kind in KIND_WORDS:
            raise WrongUsage(f"{text!r} is of a cluster, and this is about jobs of this machine", _WAY)
        raise WrongUsage(f"{text!r} names no job", did_you_mean(kind, (*_KINDS, *KIND_WORDS)) or _WAY)
    if text == "all" or kind in ("pid", "user"):
        return _of_target(text, gpus, table)
    return _of_gpus(rest if colon and kind == "gpu" else text, gpus, table)


def subjects_that_exist(texts: Sequence[str], world: World, *, process_too: bool) -> tuple[JobSubject, ...]:
    """Return whom a person means; raise WrongUsage for a GPU or a user that does not exist, who was mistyped.

    With `process_too` the process of pid:PID must exist too. Whether a container, a unit or a notebook does is
    not known here.
    """
    seen: list[Sequence[Gpu]] = []

    def gpus() -> Sequence[Gpu]:
        if not seen:
            seen.append(world.gpu_reader.look(Depth.HOLDERS).gpus)
        return seen[0]

    found = []
    for text in texts:
        subject = job_subject(text, gpus, world.proc, world.user)
        if text.startswith("user:") or (process_too and text.startswith("pid:")):
            target_among(text, gpus, world.proc)
        elif isinstance(subject, OneProcess) and not subject.birth and not text.startswith("pid:"):
            select(text, gpus())  # a number that is no process is a GPU, and this one is none
        found.append(subject)
    return tuple(found)


def concerns(subject: JobSubject, job: Job) -> bool:
    """Return whether a job is meant."""
    match subject:
        case Everything():
            return True
        case SomeGpus(uuids=uuids):
            return not uuids.isdisjoint(job.uuids)
        case OneProcess(pid=pid, birth=birth):
            return any(each.pid == pid and each.birth == birth for each in job.members)
        case OneUser(name=name):
            return job.users == {name}  # what is others' too is not meant by one user's name
        case NamedOwner(kind=kind, name=name):
            return job.owner.kind is kind and owner_has_name(job.owner, name)
    assert_never(subject)


def owner_has_name(owner: Owner, typed: str) -> bool:
    """Return whether a person may call an owner so: its name, without its ending too, its id, how the id begins."""
    names = {owner.id}
    if not isinstance(owner.name, Unknown):
        names.add(owner.name)
    names |= {name.removesuffix(ending) for name in names for ending in (".service", ".ipynb")}
    if owner.kind is OwnerKind.CONTAINER and len(typed) >= _SHORTEST_ID and owner.id.startswith(typed):
        names.add(typed)
    return typed in names


def _of_target(
    text: str, gpus: Callable[[], Sequence[Gpu]], table: ProcessTable
) -> Everything | OneProcess | OneUser:
    target = target_among(text, gpus, table, gone_is_fine=True)
    if not isinstance(target, Everything | OneProcess | OneUser):
        raise WrongUsage(f"{text!r} names no job", _WAY)
    return target


def _of_gpus(word: str, gpus: Callable[[], Sequence[Gpu]], table: ProcessTable) -> SomeGpus | OneProcess:
    there = gpus()
    meant: Sequence[Gpu] = [gpu for gpu in there if gpu.mig is not None and gpu.mig.parent_uuid == word]
    if not meant:
        try:
            meant = select(word, there)
        except WrongUsage as error:
            if word.isalpha():
                raise WrongUsage(error.sentence, did_you_mean(word, ("mine", "all", *_KINDS)) or _WAY) from None
            if not is_number(word):
                raise
            target = _of_target(f"pid:{word}", gpus, table)
            if isinstance(target, OneProcess):
                return target
            raise
    nameless = next((gpu for gpu in meant if isinstance(gpu.uuid, Unknown)), None)
    if nameless is not None:
        raise WrongUsage(f"GPU {nameless.label} cannot be named now: its UUID is {nameless.uuid}")
    return SomeGpus(frozenset(str(gpu.uuid) for gpu in meant), ",".join(gpu.label for gpu in meant))
