"""The values that the page shows, as plain text: the templates only lay them out.

Text that others wrote (names, commands, reasons) is shortened and made printable; the templates escape it, so that
it is never markup.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, TypeVar

from fallow.core.board import Board, FillerView, GuardView
from fallow.core.gpu import Holder, Memory
from fallow.core.gpu_status import GpuStatus, load_of, people_on
from fallow.core.protections import (
    ClusterPart,
    Everything,
    OneClusterJob,
    OneGpu,
    OneProcess,
    OneUser,
    Protection,
    covering,
    is_over,
)
from fallow.core.reservations import Claim
from fallow.core.units import bytes_for_people, duration_for_people, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.jobs.protections import affected_by

_LONGEST_REASON = 240
_LONGEST_COMMAND = 96
_LONGEST_NAME = 48
_HOLDERS_SHOWN = 6
_NOT_KNOWN = "?"
_PERCENT = 100

T = TypeVar("T")
View = dict[str, Any]
"""What a template shows of one thing, by the names that the template uses."""


@value
class Timer:
    """A time that changes: the page updates only its text, wherever it stands under this name."""

    key: str
    text: str


@value
class Reading:
    """One reading: its name, its text, and how full its bar is, 0..100; None for no bar."""

    name: str
    text: str
    filled: int | None = None
    why_unknown: str = ""


def cards(board: Board) -> tuple[View, ...]:
    """Return all GPUs, in their order."""
    return tuple(_card(gpu, board) for gpu in board.status.gpus)


def fillers(views: Sequence[FillerView]) -> list[View]:
    """Return the fillers."""
    return [
        {
            "name": shortened(view.name, _LONGEST_NAME),
            "gpus": ", ".join(view.gpus) or "none",
            "phase": view.phase,
            "lasted": Timer(f"filler-{number}", coarsely(view.for_s)),
            "because": shortened(view.because, _LONGEST_REASON),
            "yields": _yields(view),
        }
        for number, view in enumerate(views)
    ]


def guards(views: Sequence[GuardView]) -> list[tuple[str, str, str]]:
    """Return the name, phase and reason of each guard."""
    return [(shortened(one.name, _LONGEST_NAME), one.phase, shortened(one.because, _LONGEST_REASON)) for one in views]


def protections(found: Iterable[Protection], board: Board, now_s: float, own: str | None = None) -> list[View]:
    """Return the protections in force. Without `own` all have a button to release them: each page keeps those of its
    visitor. With it, only those of that user have one.
    """
    return [
        {
            "id": protection.id,
            "what": _what_is_held(protection, board),
            "by": shortened(protection.by_user, _LONGEST_NAME),
            "why": shortened(protection.why, _LONGEST_REASON),
            "left": Timer(f"protection-{protection.id}", _left(protection, now_s)),
            "ends": "without an end" if protection.until_wall_s == inf else f"for another {_left(protection, now_s)}",
            "may_be_released": own in (None, protection.by_user) and protection.id > 0,
        }
        for protection in found
        if not is_over(protection, now_s)
    ]


def machine(board: Board, now_s: float) -> View:
    """Return the machine as a whole, with its GPUs as `8 GPUs` or `4 simulated GPUs`."""
    number = len(board.status.gpus)
    return {
        "host": shortened(board.status.host, _LONGEST_NAME),
        "gpus": f"{number} {'simulated ' if board.status.simulated else ''}GPU{'' if number == 1 else 's'}",
        "models": models(board),
        "is_dry_run": board.is_dry_run,
        "watched_for": coarsely(max(0.0, now_s - board.started_wall_s)),
        "config": "" if board.config is None else shortened(board.config, _LONGEST_COMMAND),
    }


def models(board: Board) -> str:
    """Return the name of the GPUs, if all have the same."""
    names = {gpu.name for gpu in board.status.gpus if not isinstance(gpu.name, Unknown)}
    return shortened(names.pop(), _LONGEST_NAME) if len(names) == 1 else ""


def _card(gpu: GpuStatus, board: Board) -> View:
    known = people_on(gpu)
    lasted = None if gpu.for_s is None else Timer(f"for-{part_name(gpu)}", coarsely(gpu.for_s))
    found = covering(board.protections, affected_by([gpu]), board.status.wall_s)
    return {
        "part": part_name(gpu),
        "label": gpu.label,
        "name": _NOT_KNOWN if isinstance(gpu.name, Unknown) else shortened(gpu.name, _LONGEST_NAME),
        "activity": gpu.activity,
        "lasted": lasted,
        "because": shortened(gpu.because, _LONGEST_REASON),
        "readings": _readings(gpu),
        "holders": tuple(_holder(holder) for holder in known[:_HOLDERS_SHOWN]),
        "more_holders": max(0, len(known) - _HOLDERS_SHOWN),
        # Without other holders, the claim or the filler is already the reason.
        "claim": shortened(str(gpu.claim), _LONGEST_REASON) if isinstance(gpu.claim, Claim) and known else "",
        "filler": shortened(gpu.filler.command or "?", _LONGEST_COMMAND) if gpu.filler is not None and known else "",
        "waiting": gpu.waiting,
        "parked": tuple(
            shortened(job.in_words, _LONGEST_REASON) for job in board.status.parked if gpu.uuid in job.uuids
        ),
        "held": tuple(shortened(_who_protects(protection, board), _LONGEST_REASON) for protection in found),
    }


def _readings(gpu: GpuStatus) -> tuple[Reading, ...]:
    return (
        _reading("utilization", load_of(gpu), lambda load: (f"{load:.0%}", round(_PERCENT * load))),
        _reading("memory", gpu.memory, _memory),
        _reading("power", gpu.power_w, lambda watts: _power(watts, gpu.power_limit_w)),
        _reading("temperature", gpu.temperature_c, lambda degrees: (f"{degrees} °C", None)),
    )


def _reading(name: str, found: T | Unknown, show: Callable[[T], tuple[str, int | None]]) -> Reading:
    """Return a reading with its text and how full its bar is, or with the reason why it is not known."""
    if isinstance(found, Unknown):
        return Reading(name, _NOT_KNOWN, None, found.why)
    return Reading(name, *show(found))


def _memory(memory: Memory) -> tuple[str, int | None]:
    used, total = memory.used_bytes, memory.total_bytes
    text = f"{bytes_for_people(used)} of {bytes_for_people(total)}"
    return text, round(_PERCENT * used / total) if total else 0


def _power(watts: float, limit_w: float | Unknown) -> tuple[str, int | None]:
    if isinstance(limit_w, Unknown) or not limit_w:
        return f"{watts:.0f} W", None
    return f"{watts:.0f} of {limit_w:.0f} W", min(_PERCENT, round(_PERCENT * watts / limit_w))


def _holder(holder: Holder) -> View:
    return {
        "user": _NOT_KNOWN if isinstance(holder.user, Unknown) else shortened(holder.user, _LONGEST_NAME),
        "command": _NOT_KNOWN if isinstance(holder.command, Unknown) else shortened(holder.command, _LONGEST_COMMAND),
        "pid": holder.pid,
        "memory": _NOT_KNOWN if isinstance(holder.memory_bytes, Unknown) else bytes_for_people(holder.memory_bytes),
        "place": "" if isinstance(holder.owner, Unknown) else shortened(holder.owner.label, _LONGEST_NAME),
    }


def part_name(gpu: GpuStatus) -> str:
    """Return how the parts of the page about a GPU are named."""
    return gpu.label.replace(":", "-")


def _who_protects(protection: Protection, board: Board) -> str:
    said = f"{_what_is_held(protection, board)} is protected by {protection.by_user}"
    return f"{said}: {protection.why}" if protection.why else said


def _what_is_held(protection: Protection, board: Board) -> str:
    match protection.target:
        case Everything():
            return "the whole machine"
        case OneGpu(uuid):
            labels = [gpu.label for gpu in board.status.gpus if gpu.uuid == uuid]
            return f"GPU {labels[0]}" if labels else shortened(uuid, _LONGEST_NAME)
        case OneProcess(pid):
            return f"process {pid}"
        case OneUser(name):
            return f"all of {shortened(name, _LONGEST_NAME)}"
        case OneClusterJob() | ClusterPart():
            return shortened(str(protection.target), _LONGEST_NAME)


def _left(protection: Protection, now_s: float) -> str:
    return "no end" if protection.until_wall_s == inf else coarsely(max(0.0, protection.until_wall_s - now_s))


def coarsely(seconds: float) -> str:
    """Return a duration in whole minutes once it has one, so that it does not change at every tick."""
    return duration_for_people(int(seconds) if seconds < 60 else seconds // 60 * 60)


def _yields(view: FillerView) -> str:
    if not view.yields:
        return "none yet"
    last = "" if view.last_yield_s is None else f", the last within {view.last_yield_s:.2f} s"
    return f"{view.yields}{last}"
