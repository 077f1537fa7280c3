"""Explain why a GPU has its activity, for people and for programs: now, then what was found and done before."""

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from fallow.core.api import VERSION
from fallow.core.board import Counting, FillerView, GuardView
from fallow.core.findings import Event
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus
from fallow.core.protections import OneProcess, OneUser, with_its_end
from fallow.core.units import bytes_for_people, duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.engine.answers.why import Explained, Stopped
from fallow.engine.client.daemon_client import Ruled
from fallow.engine.history.sqlite_file import clock_time
from fallow.interfaces.render.as_json import gpu_seen, iso_time, parked_facts, protection_facts, reason_facts

_ACTIONS = {
    "report": "it is reported",
    "warn": "its people are warned",
    "ask": "it is asked to end",
    "park": "it is parked, if that is possible",
    "kill": "what is left of it is killed",
}
_EMPTY = "the journal is empty: nothing was recorded yet"
_NO_STORY = "the journal has no entries on that"
_STOPS_SHOWN = 5
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
    lines: list[str] = []
    for event in reversed(_told(events)):
        lines.append(printable(f"{clock_time(event.wall_s)}, {event.in_words(now_wall_s)}"))
        lines.extend(printable(f"  {name}: {text}") for name, text in event.evidence)
    return lines


def _told(events: Sequence[Event]) -> list[Event]:
    """Return the events that the story has, newest first."""
    found = next((at for at, event in enumerate(events) if event.kind == "verdict"), len(events) - 1)
    shown, earlier = events[: found + 1], events[found + 1 :]
    return [*shown, *(_done_before(shown[-1].subject, earlier) if shown else ())]


def _stop(stop: Stopped, now_wall_s: float) -> str:
    """Return one stop in a line."""
    asked = stop.asked
    ago = duration_for_people(max(0.0, now_wall_s - asked.wall_s))
    done = ("parked" if asked.step == "park" else "stopped") if stop.is_gone else "asked to end"
    by = f" (rule {asked.rule})" if asked.rule else ""
    return printable(f"{clock_time(asked.wall_s)}, {ago} ago: {asked.subject} was {done}: {asked.because}{by}")


def _past(found: Explained) -> Iterator[str]:
    """Return what the journals have: of a user the last stops, else the story and the last stop before it."""
    if isinstance(found.target, OneUser):
        yield from (_stop(stop, found.now_s) for stop in reversed(found.stops[:_STOPS_SHOWN]))
        return
    told = _told(found.events)
    if found.stops and not any(stop.asked in told for stop in found.stops):
        yield f"earlier: {_stop(found.stops[0], found.now_s)}"
    yield from story(found.events, found.now_s)


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


def lines(found: Explained) -> Iterator[str]:
    """Return the explanation for people, line by line."""
    yield from _now(found)
    for job in found.parked:
        yield f"  {printable(job.in_words)}"
    for protection in found.protections:
        yield f"  {with_its_end(protection, found.now_s, found.labels)}"
    if found.gpus and not found.watched and found.trouble is None:
        yield "  `fallow up` does not run, so it is not known since when"
    yield from (ruled(_named_once(each, found)) for each in found.rules)
    yield from _past(found)
    has_story = found.stops if isinstance(found.target, OneUser) else found.events
    if not has_story and found.unreadable is None and found.trouble is None:
        yield _no_events(found)


def as_json(found: Explained) -> dict[str, Any]:
    """Return the explanation for programs."""
    counting = [each for each in found.rules if isinstance(each, Counting)]
    told = [event_facts(event) for event in found.events]
    return {
        "version": VERSION,
        "subject": None if found.target is None else str(found.target),
        "watched": None if found.target is None else found.watched,
        "gpus": [gpu_seen(gpu, found.now_s, found.protections, counting) for gpu in found.gpus],
        "protections": [protection_facts(protection) for protection in found.protections],
        "rules": [_counting_facts(each) for each in counting],
        "guards": [
            {"guard": each.name, "phase": each.phase, **reason_facts(each)}
            for each in found.rules
            if isinstance(each, GuardView)
        ],
        "fillers": [
            {"filler": each.name, "phase": each.phase, **reason_facts(each), "for_s": each.for_s}
            for each in found.rules
            if isinstance(each, FillerView)
        ],
        "parked": [parked_facts(job) for job in found.parked],
        "events": None if found.unreadable is not None and not told else told,
        "unknown": {} if found.unreadable is None else {"events": str(found.unreadable)},
    }


def _named_once(each: Ruled, found: Explained) -> Ruled:
    """Return a rule that names the protection which stands above it without its end: that was rounded elsewhere."""
    if not isinstance(each, Counting) or each.protection not in {above.id for above in found.protections}:
        return each
    return replace(each, left_alone=f"protection {each.protection}")


def _now(found: Explained) -> Iterator[str]:
    target = found.target
    if isinstance(target, OneProcess):
        if found.has_ended:
            yield f"pid {target.pid} has ended"
        elif not found.gpus:
            yield f"pid {target.pid} uses no GPU that can be seen"
    elif isinstance(target, OneUser):
        if not found.gpus:
            yield printable(f"{target.name} has no job on a GPU that can be seen")
    elif target is not None and not found.gpus:
        yield f"GPU {target.uuid} is not to be seen"
    for gpu in found.gpus:
        yield from gpu_now(gpu, found.now_s)


def _no_events(found: Explained) -> str:
    """Return that the journal says nothing, or that there is none, and why."""
    if found.no_journal is not None:
        return f"there is no journal: {found.no_journal}; set FALLOW_STATE_DIR to a folder of yours"
    if isinstance(found.target, OneUser):
        return printable(f"the journal has no stop of a job of {found.target.name}")
    return _EMPTY if found.target is None else _NO_STORY


def _holder(holder: Holder) -> str:
    user = "somebody" if isinstance(holder.user, Unknown) else printable(holder.user)
    command = "an unknown command" if isinstance(holder.command, Unknown) else shortened(holder.command)
    memory = "" if isinstance(holder.memory_bytes, Unknown) else f", {bytes_for_people(holder.memory_bytes)}"
    return f"{user}: {command} (pid {holder.pid}{memory})"


def _counting(each: Counting) -> str:
    if each.not_judged is not None:
        return f"{each.subject}: not judged: {each.not_judged}"
    counted = (
        f"{each.fault} for {duration_for_people(each.for_s)}{each.lasted}" if each.for_s else f"not {each.fault} now"
    )
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
    if each.action == "kill":
        return f"{each.subject}: asked to end; {_ACTIONS[each.action]} in {duration_for_people(each.in_s)}"
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
