"""Place, find and release protections, through the daemon if one runs."""

from collections.abc import Sequence

from fallow.core.board import protected_otherwise
from fallow.core.errors import FallowError, NotPermitted, WrongUsage
from fallow.core.gpu import Gpu, labels_of
from fallow.core.ports import Depth
from fallow.core.protections import ClusterPart, OneClusterJob, OneGpu, Protection, reason_of
from fallow.core.units import printable
from fallow.engine.allocate.subjects import TO_PROTECT, target_of
from fallow.engine.answers.asker import Asker
from fallow.engine.jobs.protections import active_protections

_LONGEST_S = 366 * 86400.0
_SHORTEST_ID, _WHOLE_ID = 3, 9


def place(asker: Asker, subject: str, for_s: float, why: str) -> Protection:
    """Protect a subject from now on."""
    world, daemon = asker.world, asker.daemon
    if not 0 < for_s <= _LONGEST_S:
        raise WrongUsage("a protection lasts for some time, and at most a year", "write it as --for 2h")
    status = daemon.status()

    def gpus() -> Sequence[Gpu]:
        return world.gpu_reader.look(Depth.HOLDERS).gpus if status is None else status.gpus

    target = target_of(subject, TO_PROTECT, gpus, world.proc, world.user)
    if isinstance(target, OneClusterJob | ClusterPart):
        _check_in_cluster(asker, target)
    until_s = world.clock.wall_s() + for_s
    placed = None if status is None else daemon.protect(target, for_s, reason_of(why))
    if placed is not None:
        return placed
    number = world.protections.place(target, until_s, why)
    return Protection(number, target, until_s, reason_of(why), world.user)


def in_force(asker: Asker) -> Sequence[Protection]:
    """Return all protections that are in force."""
    return active_protections(asker.world, asker.daemon)


def left_alone(asker: Asker, listed: Sequence[Protection]) -> list[str]:
    """Return of each job that rules leave alone for something else than these protections what protects it."""
    counting = asker.daemon.counting() or ()
    return [printable(sentence) for sentence in protected_otherwise(counting, listed)]


def release(asker: Asker, number: int) -> int:
    """End the protection whose id has these first digits; return its id."""
    meant = _meant(asker, number)
    if not asker.daemon.release_protection(meant):
        asker.world.protections.release(meant)
    return meant


def labels_for(asker: Asker, protections: Sequence[Protection]) -> dict[str, str]:
    """Return the labels of the GPUs, if one of them is protected; none if the GPUs cannot be read now."""
    if not any(isinstance(each.target, OneGpu) for each in protections):
        return {}
    status = asker.daemon.status()
    try:
        return labels_of(asker.world.gpu_reader.look(Depth.HOLDERS).gpus if status is None else status.gpus)
    except FallowError:
        return {}


def _meant(asker: Asker, number: int) -> int:
    """Return the id that begins with these digits, if only one does: ids are long, because none is used twice."""
    digits = str(number)
    if len(digits) >= _WHOLE_ID:
        return number
    ids = {protection.id for protection in in_force(asker) if str(protection.id).startswith(digits)}
    if number in ids:
        return number
    if len(digits) < _SHORTEST_ID:
        raise WrongUsage(f"there is no protection {digits}; write the first {_SHORTEST_ID} digits of its id, or more")
    if not ids:
        return number
    if len(ids) > 1:
        raise WrongUsage(f"the ids of {len(ids)} protections begin with {digits}; write more of it")
    return ids.pop()


def _check_in_cluster(asker: Asker, target: OneClusterJob | ClusterPart) -> None:
    """Raise NotPermitted for a job of another user; note what a person should know before they rely on it."""
    from fallow.engine.answers.cluster import demand_node

    world, daemon = asker.world, asker.daemon
    view = daemon.cluster(str(target))
    if view is None:
        why = "no `fallow up` with [cluster] answers here"
        asker.note(f"{why}: the protection counts once one reads the protections of this machine")
        return
    demand_node(view, target)
    may_all = world.viewer.everything or (daemon.hello() or {}).get("user") == world.user
    others = [] if may_all else sorted({job.user for job in view.jobs if job.user not in ("", world.user)})
    if not view.jobs and not view.jobs_listed:
        asker.note(f"whether {target} holds a GPU now is not known; the protection counts all the same")
    elif not view.jobs:
        asker.note(f"{target} holds no GPU now; the protection counts once it does")
    elif others and isinstance(target, OneClusterJob):
        raise NotPermitted(f"{target} is {others[0]}'s; only {others[0]} and root can protect it")
    elif others:
        asker.note(f"of {target} this protects your own jobs; those of others only they and root can protect")
