"""The jobs on the GPUs as a tree: whose each is and who started it, and below it its processes. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf

from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus
from fallow.core.owner import Owner
from fallow.core.protections import AffectedProcess
from fallow.core.reservations import Claim
from fallow.core.units import bytes_for_people, duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.jobs.protections import uuids_with_cards
from fallow.interfaces.top.look import Look
from fallow.interfaces.top.rows import Filter, is_about, next_for, some_of

_LONGEST_COMMAND = 160
_SOMEBODY = "somebody"


@value
class Node:
    """A line of the tree, and what the keys mean by it."""

    key: tuple[object, ...]
    text: str
    subjects: tuple[str, ...] = ()
    """What `fallow stop` and `fallow protect` call it; empty if there is nothing to act on."""
    below: tuple["Node", ...] = ()
    gpus: tuple[str, ...] = ()
    """The labels of its GPUs."""


@value
class _Member:
    """A process on one or more GPUs."""

    holder: Holder
    gpus: tuple[GpuStatus, ...]
    fills: bool

    @property
    def user(self) -> str:
        return _SOMEBODY if isinstance(self.holder.user, Unknown) else self.holder.user


def job_tree(look: Look, gpus: Sequence[GpuStatus], only: Filter) -> list[Node]:
    """Return the jobs on these GPUs, in the order of their first GPU; then what is claimed, parked or not known."""
    jobs: dict[tuple[object, ...], list[_Member]] = {}
    for member in _members(gpus):
        if only.shows_user(member.holder.user):
            jobs.setdefault(_key(member, look), []).append(member)
    nodes = [_job(key, members, look) for key, members in jobs.items()]
    for gpu in gpus:
        if isinstance(gpu.holders, Unknown):
            text = printable(f"GPU {gpu.label}: its processes are {gpu.holders}")
            nodes.append(Node(("unknown", gpu.label), text, gpus=(gpu.label,)))
    nodes += _claims(gpus, only)
    for job in look.status.parked:
        on = tuple(gpu.label for gpu in gpus if gpu.uuid in job.uuids)
        if on and only.shows_user(job.user):
            key, subjects = ("parked", job.first.pid, job.first.birth), (f"pid:{job.first.pid}",)
            nodes.append(Node(key, printable(job.in_words), subjects, gpus=on))
    return nodes


def _members(gpus: Iterable[GpuStatus]) -> list[_Member]:
    found: dict[int, _Member] = {}
    for gpu in gpus:
        for holder in () if isinstance(gpu.holders, Unknown) else gpu.holders:
            before = found.get(holder.pid)
            on = (gpu,) if before is None else (*before.gpus, gpu)
            first = holder if before is None else _added(before.holder, holder)
            found[holder.pid] = _Member(first, on, holder.pid in gpu.filler_pids)
    return list(found.values())


def _added(one: Holder, other: Holder) -> Holder:
    """Return the holder with its memory on both GPUs."""
    if isinstance(one.memory_bytes, Unknown) or isinstance(other.memory_bytes, Unknown):
        return replace(one, memory_bytes=Unknown("not known on each of its GPUs"))
    return replace(one, memory_bytes=one.memory_bytes + other.memory_bytes)


def _key(member: _Member, look: Look) -> tuple[object, ...]:
    """Return what the processes of a job have in common: a rule counts them together, one owner, or one session."""
    owner, starter = member.holder.owner, look.starters.get(member.holder.pid)
    counted = next((each for each in look.counting if is_about(each, (), (member.holder.pid,))), None)
    if counted is not None:
        return ("job", member.user, *sorted(counted.processes)[:1])
    if isinstance(owner, Owner) and owner.is_lasting:
        return ("job", member.user, *owner.key)
    return ("job", member.user, member.holder.pid if starter is None else starter.session)


def _job(key: tuple[object, ...], members: Sequence[_Member], look: Look) -> Node:
    pids = [member.holder.pid for member in members]
    gpus = list({gpu.label: gpu for member in members for gpu in member.gpus}.values())
    words = [
        members[0].user,
        "a filler" if members[0].fills else "",
        some_of([gpu.label for gpu in gpus]),
        ", ".join(dict.fromkeys(_doing(gpu, _age_s(members, look)) for gpu in gpus)),
        _ends(members, gpus, look),
        _memory([member.holder for member in members]),
        started_by(members[0].holder, look),  # the longest, and what is cut first
    ]
    text = printable("  ".join(word for word in words if word))
    below = tuple(_process(member) for member in members)
    return Node(key, text, tuple(f"pid:{pid}" for pid in pids), below, tuple(gpu.label for gpu in gpus))


def _ends(members: Sequence[_Member], gpus: Sequence[GpuStatus], look: Look) -> str:
    processes = tuple(
        AffectedProcess(each.holder.pid, each.holder.birth, each.holder.user, each.holder.command) for each in members
    )
    return next_for(look, uuids_with_cards(gpus), [each.holder.pid for each in members], processes).told


def _process(member: _Member) -> Node:
    holder = member.holder
    command = "an unknown command" if isinstance(holder.command, Unknown) else holder.command
    folder, _, name = command.partition(" ")[0].rpartition("/")
    command = command if not folder else name + command.removeprefix(f"{folder}/{name}")
    on = tuple(gpu.label for gpu in member.gpus)
    text = f"{holder.pid}  {_memory([holder])}  {some_of(on)}  {command}"
    return Node(("process", holder.pid), shortened(text, _LONGEST_COMMAND), (f"pid:{holder.pid}",), gpus=on)


def started_by(holder: Holder, look: Look) -> str:
    """Return who started a process: its owner, and the program above it, as far as that is known."""
    owner = "" if isinstance(holder.owner, Unknown) else holder.owner.label
    starter = look.starters.get(holder.pid)
    above = "" if starter is None or not starter.above else "by {1} {0}".format(*starter.above[0])
    if isinstance(holder.owner, Owner) and holder.owner.is_lasting:
        return owner
    return ", ".join(word for word in (owner, above) if word)


def _claims(gpus: Iterable[GpuStatus], only: Filter) -> Iterator[Node]:
    """Yield the claims on GPUs whose process is not on them yet, one for all GPUs of the same process."""
    found: dict[object, tuple[Claim, list[str]]] = {}
    for gpu in gpus:
        claim = gpu.claim
        if isinstance(claim, Claim) and not gpu.holders and only.shows_user(claim.user or Unknown("not proven")):
            key = gpu.label if claim.pid is None else (claim.user, claim.pid)
            found.setdefault(key, (claim, []))[1].append(gpu.label)
    for claim, labels in found.values():
        subjects = () if claim.pid is None else (f"pid:{claim.pid}",)
        text = printable(f"{claim.user or _SOMEBODY}  {some_of(labels)}  {claim}")
        yield Node(("claim", labels[0]), text, subjects, gpus=tuple(labels))


def _age_s(members: Iterable[_Member], look: Look) -> float:
    """Return for how long the oldest process of a job has run; inf if that is not known."""
    starters = [look.starters.get(member.holder.pid) for member in members]
    return max((inf if each is None or each.age_s is None else each.age_s for each in starters), default=inf)


def _doing(gpu: GpuStatus, age_s: float) -> str:
    """Return what its GPU does, and for how long: what was before the job is not the job's."""
    return gpu.activity.value + ("" if gpu.for_s is None else f" {duration_for_people(min(gpu.for_s, age_s))}")


def _memory(holders: Sequence[Holder]) -> str:
    known = [each.memory_bytes for each in holders if not isinstance(each.memory_bytes, Unknown)]
    return bytes_for_people(sum(known)) if len(known) == len(holders) else "? memory"
