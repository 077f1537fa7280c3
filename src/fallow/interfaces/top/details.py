"""The details of a GPU and of a job, and the help, as lines."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fallow.core.activity import Activity
from fallow.core.gpu import labels_of
from fallow.core.gpu_status import GpuStatus, load_of
from fallow.core.protections import OneGpu, OneProcess, Protection, covering, with_its_end
from fallow.core.units import bytes_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.jobs.protections import affected_by
from fallow.interfaces.render import why_text
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.top.jobs import Node
from fallow.interfaces.top.look import Look

HELP = (
    "p      protect it: no rule and no fallow stop touches it; then",
    "       Ctrl-R releases what protects it already",
    "s      stop it: shows what would be done, and asks first",
    "w      why it is judged so, which rule counts, what was done",
    "m      which of your jobs were stopped, when and why",
    "W      the last decision on any GPU, and what was done",
    "u      who wasted most in the last 7 days, and what it cost",
    "Enter  all readings, protections and rules of it",
    "j      the jobs of all GPUs, or only of the selected one",
    "/      show only some users or activities",
    "o      the next order; or click on the head of a column",
    "Tab    between GPUs and jobs; arrows move, left and right fold",
    "Home   the first row; End the last one",
    "mouse  a click selects, two open the details, the wheel scrolls",
    "^L     draw the screen again, as it does every 5 seconds",
    "q      end, as does Ctrl-C",
    "",
    "you can have: what is free or filled; fallow run takes one",
    "util, last: how much of the time something ran, now and before",
    "stops in: when a rule stops the job if it stays idle, red once",
    "it was warned; `kill 8s`: it was asked to end, and is killed",
    "then; `protected`: it is left alone; `held back`: its stop is",
    "due, and w says why it is not done",
    "",
    *(f"{activity.value:<9} {LOOKS[activity].meaning}" for activity in Activity),
)


def gpu_lines(gpu: GpuStatus, look: Look) -> list[str]:
    """Return all that is known of a GPU."""
    return [
        *why_text.gpu_now(gpu, look.status.wall_s),
        *(_started(gpu, look)),
        *_around([gpu], look),
        "",
        *(f"{name:<12} {text}" for name, text in _readings(gpu)),
    ]


def job_lines(node: Node, look: Look, gpus: list[GpuStatus]) -> list[str]:
    """Return all that is known of a job or a process, and of the GPUs that it is on."""
    lines = [node.text, *(f"  {each.text}" for each in node.below), ""]
    for subject in node.subjects:
        pid = int(subject.removeprefix("pid:"))
        starter = look.starters.get(pid)
        if starter is not None and starter.above:
            chain = ", by ".join(f"{name} {above}" for above, name in starter.above)
            lines.append(f"pid {pid} was started by {chain}")
    lines += _around(gpus, look)
    for gpu in gpus:
        lines += ["", *why_text.gpu_now(gpu, look.status.wall_s)]
    return lines


def protecting(look: Look, gpus: list[GpuStatus], subjects: Sequence[str]) -> list[Protection]:
    """Return what protects these GPUs now, or the job on them with these processes if `subjects` names any."""
    if isinstance(look.protections, Unknown):
        return []
    touched = affected_by(gpus)
    pids = {subject.removeprefix("pid:") for subject in subjects if subject.startswith("pid:")}
    if pids:
        touched = replace(touched, processes=tuple(each for each in touched.processes if str(each.pid) in pids))
    return covering(look.protections, touched, look.status.wall_s)


def protection_lines(found: Sequence[Protection], look: Look) -> list[str]:
    """Return who protects it, why, and for how long."""
    labels = labels_of(look.status.gpus)
    return [with_its_end(each, look.status.wall_s, labels) for each in found]


def released_here(found: Sequence[Protection]) -> tuple[int, ...]:
    """Return the ids of those that protect a GPU or a process, and not a user or the whole machine."""
    return tuple(each.id for each in found if isinstance(each.target, OneGpu | OneProcess))


def _started(gpu: GpuStatus, look: Look) -> Iterator[str]:
    for holder in () if isinstance(gpu.holders, Unknown) else gpu.holders:
        starter = look.starters.get(holder.pid)
        owner = "" if isinstance(holder.owner, Unknown) else holder.owner.label
        chain = "" if starter is None else ", by ".join(f"{name} {pid}" for pid, name in starter.above)
        if owner or chain:
            yield f"  pid {holder.pid} was started by {' in '.join(part for part in (chain, owner) if part)}"


def _around(gpus: list[GpuStatus], look: Look) -> list[str]:
    """Return the protections and the rules on these GPUs."""
    lines = []
    if isinstance(look.protections, Unknown):
        lines.append(f"  what is protected is {look.protections}")
    else:
        lines += [f"  {line}" for line in protection_lines(protecting(look, gpus, ()), look)]
    uuids = {gpu.uuid for gpu in gpus}
    if look.rules is None:
        return [*lines, f"  which rules count is not known ({look.source})"]
    return [*lines, *(why_text.ruled(each) for each in look.rules if not uuids.isdisjoint(each.uuids))]


def _readings(gpu: GpuStatus) -> Iterator[tuple[str, str]]:
    yield "name", _told(gpu.name)
    yield "UUID", _told(gpu.uuid)
    yield "utilization", _told(load_of(gpu), lambda load: f"{load:.0%} in the last seconds")
    yield (
        "memory",
        _told(
            gpu.memory,
            lambda memory: f"{bytes_for_people(memory.used_bytes)} of {bytes_for_people(memory.total_bytes)}",
        ),
    )
    yield "power", _told(gpu.power_w, "{:.0f} W".format) + _told(gpu.power_limit_w, " of {:.0f} W".format, unknown="")
    yield "temperature", _told(gpu.temperature_c, "{} °C".format)
    yield (
        "clocks",
        f"{_told(gpu.sm_clock_mhz, '{} MHz'.format)}, memory {_told(gpu.memory_clock_mhz, '{} MHz'.format)}",
    )
    yield "throttled", _told(gpu.throttled_by, lambda names: ", ".join(names) or "no")
    yield "counters", _told(gpu.counters)
    received = _told(gpu.pcie_rx_bytes_per_s, lambda rate: f"{bytes_for_people(rate)}/s")
    yield "PCIe", f"{received} in, {_told(gpu.pcie_tx_bytes_per_s, lambda rate: f'{bytes_for_people(rate)}/s')} out"
    if gpu.waiting:
        yield "waiting", f"{gpu.waiting} launches wait for it"


def _told(reading: object, words: Callable[[Any], str] = str, unknown: str | None = None) -> str:
    if isinstance(reading, Unknown):
        return str(reading) if unknown is None else unknown
    return words(reading)
