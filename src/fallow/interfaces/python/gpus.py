"""GPUs and what is on them, as the calls return them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from fallow.core.activity import Activity
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.interfaces.python.html import Cell, coloured, figure, plain, size, table
from fallow.interfaces.python.protections import Protection
from fallow.interfaces.python.told import Make, Told, each, one, times


class Owner(Told):
    """What started a process and would start it again, such as a notebook, a container or a service."""

    kind: str
    name: str | None
    id: str


class Holder(Told):
    """A process that has a context or memory on a GPU."""

    MADE: ClassVar[Mapping[str, Make]] = {"owner": one(Owner)}

    pid: int
    user: str | Unknown
    command: str | Unknown
    """Of others only the name of the program, unless you are root."""
    memory_bytes: int | Unknown
    utilization: float | Unknown
    owner: Owner | Unknown


class Claim(Told):
    """Who has claimed a GPU, by the note of the launch."""

    MADE: ClassVar[Mapping[str, Make]] = times("since")

    shared: bool
    pid: int | None
    user: str | None
    command: str | None
    since: datetime | None


class Filler(Told):
    """Background work on a GPU that leaves when somebody needs it."""

    user: str | None
    command: str | None
    pids: tuple[int, ...]


class Gpu(Told):
    """One GPU, a card or a MIG instance, with its readings."""

    MADE: ClassVar[Mapping[str, Make]] = {"holders": each(Holder)}

    index: int
    mig_slot: int | None
    mig_parent_uuid: str | Unknown | None
    uuid: str | Unknown
    name: str | Unknown
    utilization: float | Unknown
    """From 0 to 1, as all ratios."""
    memory_utilization: float | Unknown
    utilization_mean: float | Unknown
    utilization_peak: float | Unknown
    memory_used_bytes: int | Unknown
    memory_total_bytes: int | Unknown
    power_w: float | Unknown
    power_limit_w: float | Unknown
    temperature_c: int | Unknown
    sm_clock_mhz: int | Unknown
    memory_clock_mhz: int | Unknown
    throttled_by: tuple[str, ...] | Unknown
    counter_sm: float | Unknown
    counter_occupancy: float | Unknown
    counter_tensor: float | Unknown
    counter_dram: float | Unknown
    counter_floating: float | Unknown
    pcie_rx_bytes_per_s: float | Unknown
    pcie_tx_bytes_per_s: float | Unknown
    holders: tuple[Holder, ...] | Unknown

    @property
    def label(self) -> str:
        """Return its name for people: `3`, or `3:1` for the MIG instance in slot 1 of card 3."""
        return str(self.index) if self.mig_slot is None else f"{self.index}:{self.mig_slot}"

    def _repr_html_(self) -> str:
        return gpus_as_html([self])

    @property
    def _in_words(self) -> str:
        return f"{self.label}: {plain(self.name)}"


class GpuStatus(Gpu):
    """One GPU with what it does, for how long, and who has claimed it."""

    MADE: ClassVar[Mapping[str, Make]] = {
        **Gpu.MADE,
        **times("stops_at", "warns_at", "killed_at"),
        "activity": Activity,
        "claim": one(Claim),
        "filler": one(Filler),
        "protection": one(Protection),
    }

    activity: Activity
    for_s: float | None
    """Witnessed seconds of this activity; None if nobody was watching."""
    because: str
    reason: str
    facts: dict[str, Any]
    available: bool
    claim: Claim | Unknown | None
    protection: Protection | Unknown | None
    left_alone: str | None
    """Why rules leave a job on it alone; None if they do not."""
    stops_at: datetime | None
    """When a rule stops its job, if that goes on as now; None if none does."""
    warns_at: datetime | None
    """When that job is warned; None if it was, or none is stopped."""
    killed_at: datetime | None
    """When what is left of a job that was asked to end is killed; None if none was."""
    stop_held_back: str | None
    """Why a stop that is due is not done; None if there is no such."""
    paused: str | None
    waiting: int
    filler: Filler | Unknown | None

    @property
    def _in_words(self) -> str:
        return f"{self.label}: {self.activity.value}: {self.because}"


class Gpus(tuple[Gpu, ...]):
    """GPUs that were picked."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON as `fallow pick --format json` prints it."""
        from fallow.core.api import VERSION

        return {"version": VERSION, "gpus": [gpu.to_dict() for gpu in self]}

    def __repr__(self) -> str:
        return f"<Gpus {', '.join(gpu.label for gpu in self)}>"

    def _repr_html_(self) -> str:
        return gpus_as_html(self)


def gpus_as_html(gpus: Sequence[Gpu], caption: str = "") -> str:
    """Return a table with a row for each GPU; names only where they differ, or say most."""
    of_one_kind = len({gpu.name for gpu in gpus}) == 1 and isinstance(gpus[0], GpuStatus)
    rows = [_row(gpu, "" if of_one_kind else plain(gpu.name).removeprefix("NVIDIA ")) for gpu in gpus]
    heads = ("GPU", "name", "activity", "for", "util", "memory", "power", "temp", "user", "job", "note")
    return table(caption, heads, rows)


def _row(gpu: Gpu, name: str) -> tuple[Cell, ...]:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    known = not isinstance(used, Unknown) and not isinstance(total, Unknown)
    user, job = _job(gpu)
    status = gpu if isinstance(gpu, GpuStatus) else None
    return (
        gpu.label,
        name,
        "" if status is None else coloured(status.activity),
        "" if status is None else figure(status.for_s, "duration"),
        figure(gpu.utilization, "{:.0%}"),
        figure(f"{size(used)} of {size(total)}" if known else used, "{}"),
        figure(gpu.power_w, "{:.0f} W"),
        figure(gpu.temperature_c, "{} °C"),
        user,
        job,
        "" if status is None else _note(status),
    )


def _job(gpu: Gpu) -> tuple[str, str]:
    """Return the user and the job that holds most of the GPU's memory, as `fallow status` does."""
    if not isinstance(gpu, GpuStatus):
        return "", ""
    from fallow.core.main_job import main_job
    from fallow.engine.client.from_json import gpu as gpu_of

    job = main_job(gpu_of(gpu.to_dict()))
    if job is None:
        return "", ""
    return plain(job.user), f"{job.what} +{job.more}" if job.more else job.what


def _note(gpu: GpuStatus) -> str:
    notes = [] if gpu.stops_at is None else [f"stops at {gpu.stops_at:%H:%M:%S} UTC"]
    notes += [] if gpu.killed_at is None else [f"killed at {gpu.killed_at:%H:%M:%S} UTC (asked to end)"]
    notes += [] if gpu.stop_held_back is None else ["stop held back"]
    protection = gpu.protection
    if isinstance(protection, Unknown):
        notes.append("protection unknown")
    elif protection is not None:
        until = "" if protection.until is None else f" until {protection.until:%Y-%m-%d %H:%M} UTC"
        notes.append(f"protected{until}")
    elif gpu.left_alone is not None:
        notes.append("protected")
    if isinstance(gpu.claim, Unknown):
        notes.append("claim unknown")
    return printable(", ".join([*notes, *([f"{gpu.waiting} waiting"] if gpu.waiting else [])]))
