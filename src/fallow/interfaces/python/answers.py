"""What the calls answer: the status of a machine, what is idle, why, what it cost, what is protected."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar

from fallow.core.activity import Activity
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.interfaces.python.gpus import GpuStatus, gpus_as_html
from fallow.interfaces.python.html import Cell, Figure, coloured, figure, paragraphs, table
from fallow.interfaces.python.protections import Protection
from fallow.interfaces.python.told import Make, Told, each, one, times

_IN_WORDS = {True: "yes", False: "no", None: "cannot be told"}


def _spent(time_s: float) -> str:
    """Return a time as the report of the command line tells it: `<1m`, `45m`, `12.5h`."""
    from fallow.interfaces.render.report_text import time_spent

    return time_spent(round(time_s * 1000))


class ParkedJob(Told):
    """A job whose memory is off its GPUs, and which can be woken."""

    MADE: ClassVar[Mapping[str, Make]] = times("since")

    user: str
    job: str
    pid: int
    birth: int
    pids: tuple[int, ...]
    gpus: tuple[dict[str, Any], ...]
    stage: str
    since: datetime
    where: str
    wake: str
    trouble: str | None


class Status(Told):
    """One look at the machine: which GPUs are available, and what each does."""

    MADE: ClassVar[Mapping[str, Make]] = {**times("at"), "gpus": each(GpuStatus), "parked": each(ParkedJob)}

    host: str
    simulated: bool
    at: datetime
    available: int
    available_to_you: int
    counts: dict[str, int]
    gpus: tuple[GpuStatus, ...]
    parked: tuple[ParkedJob, ...]

    @property
    def _in_words(self) -> str:
        from fallow.engine.client.from_json import status as status_of
        from fallow.interfaces.render.availability_line import availability_lines

        return next(iter(availability_lines(status_of(self._facts), None, self.available_to_you)))

    def _repr_html_(self) -> str:
        return gpus_as_html(self.gpus, self._in_words)


class IdleGpu(Told):
    """Whether one GPU has been idle for so long, and why."""

    MADE: ClassVar[Mapping[str, Make]] = {"activity": Activity}

    gpu: str
    uuid: str | None
    idle: bool | None
    """None if it cannot be told."""
    activity: Activity
    for_s: float | None
    because: str


class IdleJob(Told):
    """Whether one job of a cluster has been idle for so long, and why."""

    job: str
    idle: bool | None
    """None if it cannot be told."""
    activity: str
    idle_s: float
    because: str


class Idle(Told):
    """Whether GPUs have been idle for so long. It is true only if they have: what cannot be told is never a yes."""

    MADE: ClassVar[Mapping[str, Make]] = {"gpus": each(IdleGpu), "jobs": each(IdleJob)}

    idle: bool | None
    """None if it cannot be told."""
    asked_for_s: float
    gpus: tuple[IdleGpu, ...] = ()
    jobs: tuple[IdleJob, ...] = ()
    """Only of a part of a cluster."""

    @classmethod
    def _made(cls, name: str, given: object) -> object:
        return None if name == "idle" and isinstance(given, Unknown) else super()._made(name, given)

    def __bool__(self) -> bool:
        return self.idle is True

    @property
    def _in_words(self) -> str:
        asked = f"for {duration_for_people(self.asked_for_s)}: " if self.asked_for_s else ""
        told = [f"GPU {one.gpu}: {one.because}" for one in self.gpus if one.idle is self.idle]
        told += [f"{one.job}: {one.because}" for one in self.jobs if one.idle is self.idle]
        if self.idle and not self.gpus and not self.jobs:
            return f"{asked}{_IN_WORDS[True]}: holds no GPU"
        return asked + _IN_WORDS[self.idle] + (f": {told[0]}" if told and not self.idle else "")

    def _repr_html_(self) -> str:
        if not self.gpus and not self.jobs:
            return paragraphs([self._in_words])
        if self.jobs:
            jobs = [(one.job, _IN_WORDS[one.idle], one.activity, one.because) for one in self.jobs]
            return table(self._in_words, ("job", "idle", "activity", "because"), jobs)
        rows: list[tuple[Cell, ...]] = [
            (one.gpu, _IN_WORDS[one.idle], coloured(one.activity), figure(one.for_s, "duration"), one.because)
            for one in self.gpus
        ]
        return table(self._in_words, ("GPU", "idle", "activity", "for", "because"), rows)


class Event(Told):
    """One row of the journal: what was found, done or refused, and why."""

    MADE: ClassVar[Mapping[str, Make]] = times("at")

    at: datetime
    kind: str
    subject: str
    finding: str
    because: str
    reason: str
    facts: dict[str, Any]
    evidence: dict[str, str]


class RuleState(Told):
    """What an idle rule counts of one job, and what it does next."""

    rule: str
    job: str
    fault: str
    for_s: float
    begins_in_s: float
    next: str
    in_s: float
    refused: str | None
    left_alone: str | None
    held_back: str | None
    paused: str | None
    not_judged: str | None


class Explanation(Told):
    """Why a GPU or a process is judged as it is, which rule counts, and what was done. `str()` has it for people."""

    MADE: ClassVar[Mapping[str, Make]] = {
        "gpus": each(GpuStatus),
        "protections": each(Protection),
        "rules": each(RuleState),
        "parked": each(ParkedJob),
        "events": each(Event),
    }

    subject: str | None
    watched: bool | None
    gpus: tuple[GpuStatus, ...] = ()
    protections: tuple[Protection, ...]
    rules: tuple[RuleState, ...] = ()
    guards: tuple[dict[str, Any], ...] = ()
    fillers: tuple[dict[str, Any], ...] = ()
    parked: tuple[ParkedJob, ...] = ()
    events: tuple[Event, ...] | Unknown
    jobs: tuple[dict[str, Any], ...] | Unknown = ()
    """Only of a part of a cluster."""
    nodes: tuple[dict[str, Any], ...] = ()
    """Only of a part of a cluster."""
    lines: tuple[str, ...]
    """What `fallow why` prints; no part of the JSON."""

    def __init__(self, facts: Mapping[str, Any], lines: Iterable[str], *, notes: Iterable[str] = ()) -> None:
        super().__init__(facts, notes=notes)
        self.__dict__["lines"] = tuple(lines)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def _in_words(self) -> str:
        if not self.lines:
            return "nothing is known"
        done = () if isinstance(self.events, Unknown) or self.gpus else self.events[:1]
        return ": ".join([self.lines[0], *(f"{event.finding}: {event.because}" for event in done)])

    def _repr_html_(self) -> str:
        return paragraphs(self.lines)


class ReportGpu(Told):
    """A GPU of which something was witnessed, and its price."""

    gpu: str
    uuid: str
    name: str
    host: str
    simulated: bool
    price_per_hour: float | None


class ReportLine(Told):
    """The hours of one GPU, user, job, day or week; the names that the line is not told by are None."""

    gpu: str | None = None
    uuid: str | None = None
    name: str | None = None
    user: str | None = None
    job: str | None = None
    day: str | None = None
    week: str | None = None
    observed_s: float
    free_s: float
    filled_s: float
    busy_s: float
    idle_s: float
    stuck_s: float
    unknown_s: float
    energy_j: float | Unknown
    metered_s: float
    cost: float | Unknown

    @property
    def _in_words(self) -> str:
        names = (getattr(self, name) for name in ("gpu", "job", "user", "day", "week"))
        name = next((each for each in names if each is not None), "all")
        cost = "" if isinstance(self.cost, Unknown) else f", {self.cost:.2f}"
        return f"{name}: {_spent(self.idle_s + self.stuck_s)} of {_spent(self.observed_s)} idle or stuck{cost}"


class ReportMade(Told):
    """What made a report: which fallow, where, when, and from what."""

    MADE: ClassVar[Mapping[str, Make]] = times("at")

    fallow: str
    host: str
    at: datetime
    source: str
    resolution_s: float


class ReportGap(Told):
    """A time in which nobody watched."""

    MADE: ClassVar[Mapping[str, Make]] = times("since", "until")

    since: datetime
    until: datetime


class ReportHour(Told):
    """What all GPUs did in one hour of the week; 1 is Monday."""

    weekday: int
    hour: int
    free_s: float
    filled_s: float
    busy_s: float
    idle_s: float
    stuck_s: float
    unknown_s: float


class Report(Told):
    """The hours of each activity, and what the idle and stuck ones cost."""

    MADE: ClassVar[Mapping[str, Make]] = {
        **times("since", "until"),
        "made": one(ReportMade),
        "gaps": each(ReportGap),
        "hours": each(ReportHour),
        "gpus": each(ReportGpu),
        "lines": each(ReportLine),
        "total": one(ReportLine),
    }

    made: ReportMade
    since: datetime
    until: datetime
    observed_share: float
    gaps: tuple[ReportGap, ...]
    hours: tuple[ReportHour, ...]
    by: str
    currency: str | None
    gpus: tuple[ReportGpu, ...]
    lines: tuple[ReportLine, ...]
    total: ReportLine

    @property
    def _in_words(self) -> str:
        total = self.total
        idle = f"{_spent(total.idle_s + total.stuck_s)} of {_spent(total.observed_s)} idle or stuck"
        told = f"{idle}{self._cost}" if total.observed_s else "nothing was observed"
        return f"{self.since:%Y-%m-%d %H:%M} to {self.until:%Y-%m-%d %H:%M} UTC by {self.by}: {told}"

    @property
    def _cost(self) -> str:
        cost = self.total.cost
        return "" if isinstance(cost, Unknown) or not cost else f", {cost:.2f} {self.currency or ''}".rstrip()

    def _repr_html_(self) -> str:
        names = {"gpu": ("gpu", "name"), "job": ("job", "user")}.get(self.by, (self.by,))
        told = [f"{activity.value}_s" for activity in Activity]
        rows: list[tuple[Cell, ...]] = []
        for line in (*self.lines, self.total):
            first = [str(getattr(line, name) or "") for name in names]
            if line is self.total:
                first[0] = "all"
            hours = [Figure(_spent(getattr(line, name))) for name in (*told, "observed_s")]
            rows.append((*first, *hours, figure(line.cost, f"{{:.2f}} {self.currency or ''}") if self._cost else ""))
        heads = (*names, *(activity.value for activity in Activity), "observed", "cost")
        return table(self._in_words, heads, rows)
