"""Say which jobs `fallow stop` would stop, and what came of it, for people and as JSON."""

from collections.abc import Sequence
from typing import Any

from fallow.core.api import VERSION
from fallow.core.job import Job
from fallow.core.owner import OwnerKind
from fallow.core.reasons import Reason
from fallow.core.units import bytes_for_people, duration_for_people, printable, program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.stop.afterwards import FreedGpu
from fallow.engine.stop.idleness import Idleness
from fallow.engine.stop.stop import Stage, StoppedJob
from fallow.interfaces.render.as_json import with_reasons

_OWNER_STOPS = {
    OwnerKind.NOTEBOOK: "shut the kernel down in Jupyter",
    OwnerKind.CONTAINER: "stop the container with its engine",
    OwnerKind.SERVICE: "run systemctl stop",
}


@value
class Planned:
    """A job that was meant, how it would be stopped, and whether it is idle."""

    stopped: StoppedJob
    way: str
    idleness: Idleness

    @property
    def job(self) -> Job:
        """Return the job."""
        return self.stopped.found.job


def name_of(job: Job) -> str:
    """Return a job for its user or root: with the whole name of its owner."""
    more = f" and {len(job.members) - 1} more" if len(job.members) > 1 else ""
    owner = f", {job.owner.label}" if job.owner.label else ""
    return printable(f"{job.user}'s job {job.first.pid} ({program_name(job.members[job.first])}){more}{owner}")


def plan_lines(planned: Planned) -> list[str]:
    """Return what would be stopped and how, in two or three lines."""
    found, idle_s = planned.stopped.found, planned.idleness.for_s
    labels = ",".join(gpu.label for gpu in found.gpus) or "?"
    memory = "memory not known" if isinstance(found.memory_bytes, Unknown) else bytes_for_people(found.memory_bytes)
    idle = "not known to be idle" if idle_s is None else f"idle for {duration_for_people(idle_s)}"
    lines = [name_of(planned.job), f"  GPU {labels}; {memory}; {idle}; would {planned.way}"]
    if found.nodes:
        lines.append(f"  has {', '.join(found.nodes)} open, and is not listed by the driver")
    if found.staying:
        count = "1 process" if found.staying == 1 else f"{found.staying} processes"
        lines.append(f"  left on other GPUs: {count} that started with it")
    return [printable(line) for line in lines]


def left_line(planned: Planned) -> str:
    """Return why a job is left alone, and what a person can do about it."""
    stopped = planned.stopped
    way = "" if stopped.reason is None else way_out(stopped.reason, planned.job)
    return printable(f"left alone: {name_of(planned.job)}: {stopped.because}{way and f'; {way}'}")


def way_out(reason: Reason, job: Job) -> str:
    """Return what a person can do if a job is left alone for this reason; empty if there is nothing to say."""
    match reason.kind:
        case "opted_out":
            return f"end it yourself, with: kill {job.first.pid}"
        case "protected_label" | "label_unclear":
            return "to stop it all the same, stop the container with its engine"
        case "owner_silent":
            return f"try again, or {_OWNER_STOPS.get(job.owner.kind, 'stop it there')}"
        case _:
            return way_to_release(reason)


def way_to_release(reason: Reason) -> str:
    """Return who can end the protection of a job, of this machine or of a cluster, and how; empty without one."""
    match reason.kind:
        case "protected":
            who = " or ".join(dict.fromkeys((str(reason.facts["by"]), "root")))
            return f"{who} releases it with: fallow protect --release {reason.facts['id']}"
        case "protected_user" | "protected_group" | "protected_command" | "protected_unit" | "protected_notebook":
            return "that is in [protect] of the config"
        case _:
            return ""


def result_line(planned: Planned) -> str:
    """Return what came of one job."""
    stopped = planned.stopped
    if stopped.stage is not Stage.STOPPED:
        return left_line(planned)
    line = f"stopped {name_of(planned.job)}: {stopped.because}"
    if stopped.came_back:
        line += f"; it came back, started again by {planned.job.owner.label or 'a person or a program'}"
    return printable(line)


def progress_word(planned: Planned) -> str:
    """Return how far the stop of a job has come, for a person who interrupts it."""
    name, stage = name_of(planned.job), planned.stopped.stage
    if stage is Stage.ASKED:
        return f"{name} was asked to end, and may still be there"
    return f"{name} was not touched" if stage is Stage.UNTOUCHED else result_line(planned)


def as_json(planned: Sequence[Planned], gpus: Sequence[FreedGpu], *, dry_run: bool) -> dict[str, Any]:
    """Return what `fallow stop --json` prints."""
    return {
        "version": VERSION,
        "dry_run": dry_run,
        "jobs": [_job_facts(each) for each in planned],
        "gpus": [_gpu_facts(each) for each in gpus],
    }


def _job_facts(planned: Planned) -> dict[str, Any]:
    job, stopped = planned.job, planned.stopped
    owner = job.owner
    reason = stopped.reason
    return with_reasons(
        {
            "subject": job.subject,
            "keys": [*job.process_keys, *(f"gpu:{uuid}" for uuid in job.uuids)],
            "user": job.user,
            "pids": sorted(process.pid for process in job.members),
            "command": program_name(job.members[job.first]),
            "owner": {"kind": owner.kind.value, "name": owner.short_name, "id": owner.id},
            "gpus": [gpu.label for gpu in stopped.found.gpus],
            "memory_bytes": stopped.found.memory_bytes,
            "device_files": list(stopped.found.nodes),
            "idle_s": planned.idleness.for_s,
            "way": planned.way,
            "outcome": stopped.stage.value,
            "came_back": stopped.came_back,
            "because": stopped.because,
            "reason": None if reason is None else reason.kind,
        }
    )


def _gpu_facts(freed: FreedGpu) -> dict[str, Any]:
    return with_reasons(
        {
            "gpu": freed.gpu.label,
            "uuid": freed.gpu.uuid,
            "freed_bytes": freed.freed_bytes,
            "unseen_bytes": freed.unseen_bytes,
        }
    )
