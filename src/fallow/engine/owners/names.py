"""Give the owners of holders the names that people know them by."""

from collections.abc import Iterable
from typing import TypeVar

from fallow.core.gpu import Gpu, Holder
from fallow.core.gpu_status import Status
from fallow.core.owner import Owner, OwnerKind
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners

_ANSWERS_WITHIN_S = 1.0
G = TypeVar("G", bound=Gpu)


def with_names(owners: KnownOwners, gpus: Iterable[G]) -> tuple[G, ...]:
    """Return the GPUs with the names of owners as far as they are known by now; the others are asked for."""
    return tuple(_named(owners, gpu) if _has_owners(gpu) else gpu for gpu in gpus)


def name_now(world: World, status: Status) -> Status:
    """Return a status with the names of owners that answer within a second."""
    owners = KnownOwners(world, lambda _: None)
    with_names(owners, status.gpus)
    owners.finish(_ANSWERS_WITHIN_S)
    return replace(status, gpus=with_names(owners, status.gpus))


def _has_owners(gpu: Gpu) -> bool:
    return not isinstance(gpu.holders, Unknown) and any(_may_be_named(holder) for holder in gpu.holders)


def _may_be_named(holder: Holder) -> bool:
    owner = holder.owner
    named = isinstance(owner, Owner) and (owner.is_asked or owner.kind is OwnerKind.POD)
    return named and isinstance(holder.birth, int)


def _named(owners: KnownOwners, gpu: G) -> G:
    holders = () if isinstance(gpu.holders, Unknown) else gpu.holders
    return replace(gpu, holders=tuple(_holder(owners, each) if _may_be_named(each) else each for each in holders))


def _holder(owners: KnownOwners, holder: Holder) -> Holder:
    if isinstance(holder.birth, Unknown):
        return holder
    owner = owners.of(Process(holder.pid, holder.birth))
    return holder if isinstance(owner, Unknown) else replace(holder, owner=owner)
