"""Render fallow's values as JSON: an unknown value is null, and its reason is in `unknown`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.api import VERSION
from fallow.core.board import Counting
from fallow.core.gpu import Gpu, Holder
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.protections import Affected, Protection, protection_on
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.engine.jobs.protection_scope import uuids_with_cards


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
    }


def as_text(facts: Mapping[str, Any]) -> str:
    """Return an object as every command prints it."""
    return json.dumps(facts, indent=2)


def iso_time(wall_s: float) -> str:
    """Return seconds since the epoch as an ISO 8601 time in UTC."""
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="milliseconds")


def gpu_facts(gpu: Gpu) -> dict[str, Any]:
    """Return the readings of one GPU."""
    unknown: dict[str, str] = {}
    facts: dict[str, Any] = {
        "index": gpu.index,
        "mig_slot": gpu.mig.slot if gpu.mig is not None else None,
        "mig_parent_uuid": gpu.mig.parent_uuid if gpu.mig is not None else None,
        "uuid": gpu.uuid,
        "name": gpu.name,
        "utilization": gpu.utilization,
        "memory_utilization": gpu.memory_utilization,
        "memory_used_bytes": gpu.memory if isinstance(gpu.memory, Unknown) else gpu.memory.used_bytes,
        "memory_total_bytes": gpu.memory if isinstance(gpu.memory, Unknown) else gpu.memory.total_bytes,
        "power_w": gpu.power_w,
        "power_limit_w": gpu.power_limit_w,
        "temperature_c": gpu.temperature_c,
        "sm_clock_mhz": gpu.sm_clock_mhz,
        "memory_clock_mhz": gpu.memory_clock_mhz,
        "throttled_by": gpu.throttled_by if isinstance(gpu.throttled_by, Unknown) else list(gpu.throttled_by),
        "pcie_rx_bytes_per_s": gpu.pcie_rx_bytes_per_s,
        "pcie_tx_bytes_per_s": gpu.pcie_tx_bytes_per_s,
    }
    facts.update(_recent(gpu), **_counters(gpu))
    for name, value in facts.items():
        if isinstance(value, Unknown):
            unknown[name], facts[name] = value.why, None
    facts["holders"] = None if isinstance(gpu.holders, Unknown) else [_holder(holder) for holder in gpu.holders]
    if isinstance(gpu.holders, Unknown):
        unknown["holders"] = gpu.holders.why
    facts["unknown"] = unknown
    return facts


def protection_facts(protection: Protection) -> dict[str, Any]:
    """Return one protection; one without an end lasts until it is released."""
    return {
        "id": protection.id,
        "subject": str(protection.target),
        "until": None if protection.until_wall_s == inf else iso_time(protection.until_wall_s),
        "why": protection.why,
        "by": protection.by_user,
    }


def gpu_seen(
    gpu: GpuStatus, wall_s: float, protections: Sequence[Protection] | Unknown, counting: Iterable[Counting]
) -> dict[str, Any]:
    """Return one GPU with its activity, its protection and when its job would be stopped."""
    facts = gpu_facts(gpu)
    protection = None
    if isinstance(protections, Unknown):
        facts["unknown"]["protection"] = protections.why
    else:
        protection = protection_on(Affected(uuids_with_cards([gpu])), protections, wall_s)
    if isinstance(gpu.claim, Unknown):
        facts["unknown"]["claim"] = facts["unknown"]["filler"] = gpu.claim.why  # both come from one file
    judged = {"activity": gpu.activity.value, "for_s": gpu.for_s, "because": gpu.because, "settling": gpu.settling}
    first = {name: facts.pop(name) for name in ("index", "mig_slot", "mig_parent_uuid", "uuid", "name")}
    return (
        first
        | judged
        | {"available": gpu.activity in AVAILABLE}
        | facts
        | {
            "claim": _claim(gpu.claim),
            "protection": None if protection is None else protection_facts(protection),
            "stops_at": _stops_at(gpu, wall_s, counting),
            "waiting": gpu.waiting,
            "filler": _filler(gpu),
        }
    )


def _stops_at(gpu: GpuStatus, wall_s: float, counting: Iterable[Counting]) -> str | None:
    """Return when the first job on the GPU would be sent its signal; known once it was warned."""
    sooner = [
        each.in_s
        for each in counting
        if gpu.uuid in each.uuids and each.action == "ask" and each.refused is None and each.left_alone is None
    ]
    return iso_time(wall_s + min(sooner)) if sooner else None


def _recent(gpu: Gpu) -> dict[str, Any]:
    recent = gpu.recent
    if isinstance(recent, Unknown):
        return {"utilization_mean": recent, "utilization_peak": recent}
    return {"utilization_mean": round(recent.mean, 4), "utilization_peak": recent.peak}


def _counters(gpu: Gpu) -> dict[str, Any]:
    names = ("sm", "occupancy", "tensor", "dram", "floating")
    if isinstance(gpu.counters, Unknown):
        return {f"counter_{name}": gpu.counters for name in names}
    return {f"counter_{name}": getattr(gpu.counters, name) for name in names}


def _holder(holder: Holder) -> dict[str, Any]:
    facts = {
        "pid": holder.pid,
        "user": holder.user,
        "command": holder.command,
        "memory_bytes": holder.memory_bytes,
        "utilization": holder.utilization,
        "container": holder.container,
        "slurm_job": holder.slurm_job,
        "kubernetes_pod": holder.kubernetes_pod,
    }
    unknown = {name: value.why for name, value in facts.items() if isinstance(value, Unknown)}
    return {name: None if isinstance(value, Unknown) else value for name, value in facts.items()} | {
        "unknown": unknown
    }


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
        "unproven": claim.told,
    }
