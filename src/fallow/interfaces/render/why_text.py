"""Explain why a GPU has its activity, for people and for programs: now, then what was found and done before."""

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from fallow.core.api import VERSION
from fallow.core.board import Counting, FillerView, GuardView
from fallow.core.findings import Event
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus
from fallow.core.parked import ParkedJob
from fallow.core.protections import Protection
from fallow.core.units import bytes_for_people, duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.engine.history.sqlite_file import clock_time
from fallow.engine.machine.daemon_client import Ruled
from fallow.interfaces.render.as_json import gpu_seen, iso_time, parked_facts, protection_facts, reason_facts

_ACTIONS = {
    "report": "it is reported",
    "warn": "its people are warned",
    "ask": "it is asked to end",
    "park": "it is parked, if that is possible",
    "kill": "what is left of it is killed",
}
_STOPS = ("ask", "kill", "stopped", "park", "parked")


def gpu_now(gpu: GpuStatus, wall_s: float) -> list[str]:
    """Return its activity and why, since when, and who is on it."""
    since = ""
    if gpu.for_s is not None:
        since = f" for {duration_for_people(gpu.for_s)} (since {clock_time(wall_s - gpu.for_s)})"
    lines = [printable(f"GPU {gpu.label} is {gpu.activity.value}{since}: {gpu.because}")]
    if isinstance(gpu.holders, Unknown):
        lines.append(f"  its processes are {gpu.holders}")
    else:
        lines.extend(f"  held by {_holder(each)}" for each in gpu.holders)
    if isinstance(gpu.claim, Unknown):
        lines.append(f"  whether it is claimed is {gpu.claim}")
    elif gpu.claim is not None:
        lines.append(printable(f"  {gpu.claim}"))
    if gpu.filler is not None:
        lines.append(printable(f"  filled by {gpu.filler.user or 'somebody'}"))
    return lines


def ruled(each: Ruled) -> str:
    """Return one rule, guard or filler, and what it would do when."""
    match each:
        case Counting():
            return printable(f"  rule {each.rule}: {_counting(each)}")
        case GuardView():
            return printable(f"  guard {each.name}: {each.phase}: {each.because}")
        case FillerView():
            return printable(f"  filler {each.name}: {each.phase}: {each.because}")
    assert_never(each)


def story(events: Sequence[Event], now_wall_s: float) -> list[str]:
    """Return the last verdict with its readings, what was done since, and before it what was done to a job."""
    found = next((at for at, event in enumerate(events) if event.kind == "verdict"), len(events) - 1)
    shown, earlier = events[: found + 1], events[found + 1 :]
    lines: list[str] = []
    for event in reversed([*shown, *(_done_before(shown[-1].subject, earlier) if shown else ())]):
        lines.append(printable(f"{clock_time(event.wall_s)}, {event.in_words(now_wall_s)}"))
        lines.extend(printable(f"  {name}: {text}") for name, text in event.evidence)
    return lines


def _done_before(subject: str, events: Sequence[Event]) -> Sequence[Event]:
    """Return what was done to the subject since it was warned, or else to the last job that was stopped.

    Newest first. A warning of another job says nothing, unless it was stopped; one that was cancelled never does.
    """
    done = [event for event in events if event.kind in ("action", "outcome")]
    told = (each for each in done if each.step in (*_STOPS, "warn"))
    job = next((each.subject for each in told if each.subject == subject or each.step in _STOPS), None)
    steps = [event for event in done if event.subject == job]
    for at, event in enumerate(steps):
        if event.step in ("warn", "cancel_warning"):
            return steps[: at + (event.step == "warn")]
    return steps


def as_json(
    subject: str | None,
    watched: bool | None,
    gpus: Iterable[GpuStatus],
    wall_s: float,
    protections: Sequence[Protection],
    rules: Iterable[Ruled],
    events: Iterable[Event],
    unreadable: str | None,
    parked: Iterable[ParkedJob] = (),
) -> dict[str, Any]:
    """Return the explanation for programs. `unreadable`: why a journal could not be read."""
    found, told = list(rules), [event_facts(event) for event in events]
    counting = [each for each in found if isinstance(each, Counting)]
    return {
        "version": VERSION,
        "subject": subject,
        "watched": watched,
        "gpus": [gpu_seen(gpu, wall_s, protections, counting) for gpu in gpus],
        "protections": [protection_facts(protection) for protection in protections],
        "rules": [_counting_facts(each) for each in counting],
        "guards": [
            {"guard": each.name, "phase": each.phase, **reason_facts(each)}
            for each in found
            if isinstance(each, GuardView)
        ],
        "fillers": [
            {"filler": each.name, "phase": each.phase, **reason_facts(each), "for_s": each.for_s}
            for each in found
            if isinstance(each, FillerView)
        ],
        "parked": [parked_facts(job) for job in parked],
        "events": None if unreadable is not None and not told else told,
        "unknown": {} if unreadable is None else {"events": unreadable},
    }


def _holder(holder: Holder) -> str:
    user = "somebody" if isinstance(holder.user, Unknown) else printable(holder.user)
    command = "an unknown command" if isinstance(holder.command, Unknown) else shortened(holder.command)
    memory = "" if isinstance(holder.memory_bytes, Unknown) else f", {bytes_for_people(holder.memory_bytes)}"
    return f"{user}: {command} (pid {holder.pid}{memory})"


def _counting(each: Counting) -> str:
    if each.not_judged is not None:
        return f"{each.subject}: not judged: {each.not_judged}"
    counted = f"{each.fault} for {duration_for_people(each.for_s)}" if each.for_s else f"not {each.fault} now"
    if each.begins_in_s:
        counted = f"new, so that nothing counts for another {duration_for_people(each.begins_in_s)}"
    if each.left_alone is not None:
        would = f"; without that {_ACTIONS.get(each.action)} once {each.fault} for {duration_for_people(each.in_s)}"
        return f"{each.subject}: left alone: {each.left_alone}{would if each.action in _ACTIONS else ''}"
    if each.paused is not None:
        return f"{each.subject}: paused: {each.paused}"
    if each.refused is not None:
        return f"{each.subject}: {counted}; nothing is done: {each.refused}"
    if each.held_back is not None:
        return f"{each.subject}: {counted}; nothing begins: {each.held_back}"
    if each.action == "nothing":
        return f"{each.subject}: {counted}; nothing more follows"
    when = (
        f"in {duration_for_people(each.in_s)}"
        if each.for_s
        else f"once {each.fault} for {duration_for_people(each.in_s)}"
    )
    goes_on = " if that goes on" if each.for_s else ""
    return f"{each.subject}: {counted}; {_ACTIONS[each.action]} {when}{goes_on}"


def _counting_facts(each: Counting) -> dict[str, Any]:
    same = (
        "rule",
        "fault",
        "for_s",
        "begins_in_s",
        "in_s",
        "refused",
        "left_alone",
        "held_back",
        "paused",
        "not_judged",
    )
    return {"job": each.subject, "next": each.action, **{name: getattr(each, name) for name in same}}


def event_facts(event: Event) -> dict[str, Any]:
    same = {name: getattr(event, name) for name in ("kind", "subject", "finding", "because", "reason")}
    return {"at": iso_time(event.wall_s), **same, "facts": dict(event.facts), "evidence": dict(event.evidence)}
