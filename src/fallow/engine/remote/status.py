"""The status of other hosts, asked all at once; nothing in it is believed before its type and size are checked."""

from collections.abc import Mapping, Sequence
from math import inf

from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, Outlook, Status
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import fields, replace, value
from fallow.engine.client import from_json
from fallow.engine.machine.world import World
from fallow.engine.remote.ask import ANSWER_WITHIN_S, Facts, Refused, ask_all
from fallow.engine.remote.ssh import Ssh

_NUMBER = (int, float)


@value
class HostStatus:
    """The GPUs of one host, as values to show and as the JSON that it printed."""

    status: Status
    facts: Facts
    outlooks: Mapping[str, Outlook]
    """What rules and protections there mean for each GPU, by its label."""


def status_of_all(
    world: World, ssh: Ssh, hosts: Sequence[str], words: Sequence[str], limit_s: float = ANSWER_WITHIN_S
) -> list[tuple[str, HostStatus | Refused]]:
    """Return the status of each host, in order, or why there is none. `words`: further words of `fallow status`."""
    return ask_all(world, ssh, hosts, ["status", "--json", *words], host_status, limit_s)


def host_status(facts: Facts) -> HostStatus:
    """Return the status in an answer; raise TypeError, KeyError or ValueError if it is none."""
    status = from_json.status(facts)
    _demand(status.host, str, "its host")
    _demand(status.simulated, bool, "whether it is simulated")
    _demand(facts["available"], int, "how many GPUs are available")
    _demand(facts["counts"], dict, "how many GPUs do what")
    for count in facts["counts"].values():
        _demand(count, int, "how many GPUs do what")
    for gpu in status.gpus:
        _check_gpu(gpu)
    for job in status.parked:
        for text in (job.user, job.name, job.trouble, *(uuid for uuid, _ in job.gpus)):
            _demand(text, str, "a parked job")
        for _, size in job.gpus:
            _demand(size, int, "the memory of a parked job")
    outlooks = {
        gpu.label: _outlook(told, status.wall_s) for gpu, told in zip(status.gpus, facts["gpus"], strict=True)
    }
    return HostStatus(replace(status, host=status.host[:64]), facts, outlooks)


def _outlook(told: Facts, wall_s: float) -> Outlook:
    """Return what the answer says about one GPU."""
    why, kept_back = told["unknown"].get("protection"), told["stop_held_back"]
    left_alone = told["left_alone"]
    _demand(why, (str, type(None)), "why a protection is not known")
    _demand(kept_back, (str, type(None)), "why a stop is not done")
    _demand(left_alone, (str, type(None)), "why a job is left alone")
    times = (_in_s(told[name], wall_s) for name in ("stops_at", "killed_at", "warns_at"))
    stops_in_s, killed_in_s, warns_in_s = times
    protected_s = _protected_s(told["protection"], wall_s) if why is None else Unknown(why)
    return Outlook(stops_in_s, protected_s, kept_back, killed_in_s, warns_in_s, left_alone)


def _protected_s(protection: Facts | None, wall_s: float) -> float | None:
    if protection is None:
        return None
    left_s = _in_s(protection["until"], wall_s)
    return inf if left_s is None else left_s


def _in_s(at: str | None, wall_s: float) -> float | None:
    return None if at is None else max(0.0, from_json.wall_s(at) - wall_s)


def _check_gpu(gpu: GpuStatus) -> None:
    _demand(gpu.index, int, "the index of a GPU")
    _demand(gpu.waiting, int, "who waits for a GPU")
    _demand(gpu.for_s, (*_NUMBER, type(None)), "for how long a GPU does it")
    _demand(gpu.because, str, "why a GPU is judged so")
    for name in ("uuid", "name"):
        _demand(getattr(gpu, name), (str, Unknown), f"the {name} of a GPU")
    for name in ("utilization", "power_w", "temperature_c"):
        _demand(getattr(gpu, name), (*_NUMBER, Unknown), f"{name} of a GPU")
    for part in (gpu.memory, gpu.counters, gpu.recent):
        for name in () if isinstance(part, Unknown) else fields(type(part)):
            _demand(getattr(part, name), (*_NUMBER, Unknown), "a reading of a GPU")
    if gpu.mig is not None:
        _demand(gpu.mig.slot, int, "the slot of a MIG instance")
    for holder in () if isinstance(gpu.holders, Unknown) else gpu.holders:
        _check_holder(holder)
    for claim in (gpu.claim, gpu.filler):
        if isinstance(claim, Claim):
            _demand(claim.user, (str, type(None)), "the user of a claim")
            _demand(claim.command, (str, type(None)), "the command of a claim")
            _demand(claim.pid, (int, type(None)), "the pid of a claim")


def _check_holder(holder: Holder) -> None:
    _demand(holder.pid, int, "the pid of a holder")
    _demand(holder.memory_bytes, (int, Unknown), "the memory of a holder")
    _demand(holder.utilization, (*_NUMBER, Unknown), "the utilization of a holder")
    for text in (holder.user, holder.command):
        _demand(text, (str, Unknown), "a holder")
    if not isinstance(holder.owner, Unknown):
        for text in (holder.owner.id, holder.owner.label):
            _demand(text, str, "the owner of a holder")


def _demand(fact: object, kinds: type | tuple[type, ...], what: str) -> None:
    if not isinstance(fact, kinds):
        raise TypeError(f"{what} is of the wrong kind")
