"""Render fallow's values as JSON: an unknown value is null, and its reason is in `unknown`."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.api import VERSION
from fallow.core.board import Counting, outlook_on
from fallow.core.gpu import COUNTED, HOLDER_FACTS, PLAIN_READINGS, Gpu, Holder
from fallow.core.gpu_status import GpuStatus, Shown, Status
from fallow.core.idle_answer import IdleAnswer
from fallow.core.parked import ParkedJob
from fallow.core.protections import Affected, Protection, protection_on
from fallow.core.reasons import WithReason
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import fields
from fallow.engine.jobs.protections import uuids_with_cards


def status(
    what: Status, protections: Sequence[Protection] | Unknown = (), counting: Iterable[Counting] = ()
) -> dict[str, Any]:
    """Return what `fallow status --json` prints."""
    rules = list(counting)
    return {
        "version": VERSION,
        "host": what.host,
        "simulated": what.simulated,
        "at": iso_time(what.wall_s),
        "available": what.available,
        "counts": {activity.value: what.counted.get(activity, 0) for activity in Activity},
        "gpus": [gpu_seen(gpu, what.wall_s, protections, rules) for gpu in what.gpus],
        "parked": [parked_facts(job) for job in what.parked],
    }


def shown(
    what: Shown, protections: Sequence[Protection] | Unknown = (), counting: Iterable[Counting] = ()
) -> dict[str, Any]:
    """Return what `fallow status --json` prints to the user who asks."""
    facts = status(what.status, protections, counting)
    return {**only(facts, what.status, what.lines), "available_to_you": what.to_you}


def only(facts: dict[str, Any], what: Status, gpus: Iterable[GpuStatus]) -> dict[str, Any]:
    """Return the facts of a status with these of its GPUs, in this order; the counts stay those of all."""
    by_label = {gpu.label: each for gpu, each in zip(what.gpus, facts["gpus"], strict=True)}
    return {**facts, "gpus": [by_label[gpu.label] for gpu in gpus]}


def idle(answers: Sequence[IdleAnswer], for_s: float, together: bool | None) -> dict[str, Any]:
    """Return what `fallow idle --json` prints."""
    gpus = [{name: getattr(each, name) for name in fields(IdleAnswer)} for each in answers]
    return {"version": VERSION, "idle": together, "asked_for_s": for_s, "gpus": gpus}


def as_text(facts: Mapping[str, Any]) -> str:
    """Return an object as every command prints it."""
    return json.dumps(facts, indent=2)


def iso_time(wall_s: float) -> str:
    """Return seconds since the epoch as an ISO 8601 time in UTC."""
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="milliseconds")


def gpu_facts(gpu: Gpu) -> dict[str, Any]:
    """Return the readings of one GPU."""
    mig, memory, throttled_by, holders = gpu.mig, gpu.memory, gpu.throttled_by, gpu.holders
    return with_reasons(
        {
            "index": gpu.index,
            "mig_slot": None if mig is None else mig.slot,
            "mig_parent_uuid": None if mig is None else mig.parent_uuid,
            **{name: getattr(gpu, name) for name in PLAIN_READINGS},
            "memory_used_bytes": memory if isinstance(memory, Unknown) else memory.used_bytes,
            "memory_total_bytes": memory if isinstance(memory, Unknown) else memory.total_bytes,
            "throttled_by": throttled_by if isinstance(throttled_by, Unknown) else list(throttled_by),
            **_recent(gpu),
            **_counters(gpu),
            "holders": holders if isinstance(holders, Unknown) else [_holder(holder) for holder in holders],
        }
    )


def with_reasons(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts with null for each that is Unknown, and its reason in `unknown`."""
    unknown = {name: fact.why for name, fact in facts.items() if isinstance(fact, Unknown)}
    return facts | dict.fromkeys(unknown) | {"unknown": unknown}


def protection_facts(protection: Protection) -> dict[str, Any]:
    """Return one protection; one without an end lasts until it is released."""
    return {
        "id": protection.id,
        "subject": str(protection.target),
        "until": None if protection.until_wall_s == inf else iso_time(protection.until_wall_s),
        "why": protection.why,
        "by": protection.by_user,
    }


def protections(listed: Iterable[Protection]) -> dict[str, Any]:
    """Return what `fallow protect --json` prints."""
    return {"version": VERSION, "protections": [protection_facts(each) for each in listed]}


def parked_facts(job: ParkedJob) -> dict[str, Any]:
    """Return one parked job, where its memory is, and how to wake it."""
    return {
        "user": job.user,
        "job": job.name,
        "pid": job.first.pid,
        "birth": job.first.birth,
        "pids": [process.pid for process in job.processes],
        "gpus": [{"uuid": uuid, "memory_bytes": size} for uuid, size in job.gpus],
        "stage": job.stage.value,
        "since": iso_time(job.since_wall_s),
        "where": job.where,
        "wake": job.how_to_wake,
        "trouble": job.trouble or None,
    }


def gpu_seen(
    gpu: GpuStatus, wall_s: float, protections: Sequence[Protection] | Unknown, counting: Collection[Counting]
) -> dict[str, Any]:
    """Return one GPU with its activity, its protection and when its job would be stopped."""
    facts, outlook = gpu_facts(gpu), outlook_on(gpu.uuid, counting)
    protection = None
    if isinstance(protections, Unknown):
        facts["unknown"]["protection"] = protections.why
    else:
        protection = protection_on(Affected(uuids_with_cards([gpu])), protections, wall_s)
    if isinstance(gpu.claim, Unknown):
        facts["unknown"]["claim"] = facts["unknown"]["filler"] = gpu.claim.why  # both come from one file
    judged = {"activity": gpu.activity.value, "for_s": gpu.for_s, **reason_facts(gpu)}
    first = {name: facts.pop(name) for name in ("index", "mig_slot", "mig_parent_uuid", "uuid", "name")}
    return (
        first
        | judged
        | {"available": gpu.activity in AVAILABLE}
        | facts
        | {
            "claim": _claim(gpu.claim),
            "protection": None if protection is None else protection_facts(protection),
            "left_alone": outlook.left_alone,
            "stops_at": _at(outlook.stops_in_s, wall_s),
            "warns_at": _at(outlook.warns_in_s, wall_s),
            "killed_at": _at(outlook.killed_in_s, wall_s),
            "stop_held_back": outlook.kept_back,
            "paused": next((each.paused for each in counting if gpu.uuid in each.uuids and each.paused), None),
            "waiting": gpu.waiting,
            "filler": _filler(gpu),
        }
    )


def reason_facts(what: WithReason) -> dict[str, Any]:
    """Return the sentence for people, and the kind of the reason with its facts for programs."""
    return {"because": what.because, "reason": what.reason.kind, "facts": what.reason.plain_facts}


def _at(in_s: float | None, wall_s: float) -> str | None:
    return None if in_s is None else iso_time(wall_s + in_s)


def _recent(gpu: Gpu) -> dict[str, Any]:
    recent = gpu.recent
    if isinstance(recent, Unknown):
        return {"utilization_mean": recent, "utilization_peak": recent}
    return {"utilization_mean": round(recent.mean, 4), "utilization_peak": recent.peak}


def _counters(gpu: Gpu) -> dict[str, Any]:
    counters = gpu.counters
    return {
        f"counter_{name}": counters if isinstance(counters, Unknown) else getattr(counters, name) for name in COUNTED
    }


def _holder(holder: Holder) -> dict[str, Any]:
    owner = holder.owner
    if not isinstance(owner, Unknown):
        name = None if isinstance(owner.name, Unknown) else owner.name
        return with_reasons(_plain(holder) | {"owner": {"kind": owner.kind, "name": name, "id": owner.id}})
    return with_reasons(_plain(holder) | {"owner": owner})


def _plain(holder: Holder) -> dict[str, Any]:
    return {name: getattr(holder, name) for name in HOLDER_FACTS}


def _filler(gpu: GpuStatus) -> dict[str, Any] | None:
    filler = gpu.filler
    if filler is None:
        return None
    return {"user": filler.user, "command": filler.command, "pids": list(gpu.filler_pids)}


def _claim(claim: Claim | Unknown | None) -> dict[str, Any] | None:
    if claim is None or isinstance(claim, Unknown):
        return None
    return {
        "shared": claim.shared,
        "pid": claim.pid,
        "user": claim.user,
        "command": claim.command,
        "since": None if claim.since_wall_s is None else iso_time(claim.since_wall_s),
    }
