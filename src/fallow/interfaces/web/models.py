"""The schemas of the API's answers, for OpenAPI; the values are those of the command line's JSON.

What is served as it is in core (see `api_facts.plain`) has the schema of its class.
"""

from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, Field, create_model

from fallow.core import board, idle_answer, interval, mistake, money, protections
from fallow.core.owner import OwnerKind
from fallow.core.value import fields
from fallow.engine.daemon import reload

Activity = Literal["free", "filled", "busy", "idle", "stuck", "unknown"]
Why = Annotated[dict[str, str], Field(description="The reason of each null above.")]
Time = Annotated[str, Field(description="As 2026-11-15T09:30:00.000+00:00, in UTC.")]


class Versioned(BaseModel):
    """An answer with the version of the JSON."""

    version: Annotated[
        Literal[1], Field(description="Of the format: fields keep their names and meanings within one.")
    ]


def _like(
    kind: type[object], name: str, meaning: str, base: type[BaseModel] = BaseModel, **otherwise: object
) -> type[BaseModel]:
    """Return the schema of a value of core; `otherwise`: types of fields that JSON writes in another way."""
    types = get_type_hints(kind) | otherwise
    shape: dict[str, Any] = {field: (types[field], ...) for field in fields(kind)}
    return create_model(name, __base__=base, __doc__=meaning, **shape)


def _list_of(item: type[BaseModel], name: str, field: str, meaning: str) -> type[BaseModel]:
    """Return the schema of an answer that is a list."""
    shape: dict[str, Any] = {field: (list[item], ...)}  # type: ignore[valid-type]  # made above
    return create_model(name, __base__=Versioned, __doc__=meaning, **shape)


class Problem(Versioned):
    """Why there is no other answer: a word for programs, and a sentence."""

    reason: str
    detail: str


class Owner(BaseModel):
    """What started a process and would start it again."""

    kind: OwnerKind
    name: Annotated[str | None, Field(description="What people call it; null while its engine has not said it.")]
    id: str


class Holder(BaseModel):
    """A process that has a context or memory on a GPU."""

    pid: int
    user: str | None
    command: str | None
    memory_bytes: int | None
    utilization: float | None
    owner: Owner | None
    unknown: Why


class Claim(BaseModel):
    """A GPU promised to one launch."""

    shared: bool
    pid: int | None
    user: str | None
    command: str | None
    since: Time | None


class ListedProtection(BaseModel):
    """Leave the subject alone until then; without an end, until it is released."""

    id: int
    subject: str
    until: Time | None
    why: str
    by: str


class Reasoned(BaseModel):
    """Why something is as it is: a sentence for people, and a kind of reason with its facts for programs."""

    because: str
    reason: str
    facts: dict[str, str | float]


class GpuFiller(BaseModel):
    """Work on a GPU that yields to whoever comes."""

    user: str | None
    command: str | None
    pids: list[int]


class ParkedGpu(BaseModel):
    """A GPU that a parked job held, and how much of it."""

    uuid: str
    memory_bytes: int


class Parked(BaseModel):
    """A job whose memory is off its GPUs and whose processes live."""

    user: str
    job: str
    pid: int
    birth: int
    pids: list[int]
    gpus: list[ParkedGpu]
    stage: Annotated[str, Field(description="parking, parked or waking.")]
    since: Time
    where: str
    wake: str
    trouble: str | None


class Gpu(Reasoned):
    """One GPU: what it does, and its readings. A ratio is 0..1."""

    index: int
    mig_slot: int | None
    mig_parent_uuid: str | None
    uuid: str | None
    name: str | None
    activity: Activity
    for_s: float | None
    available: Annotated[bool, Field(description="Whether it can be taken now: it is free or filled.")]
    utilization: float | None
    memory_utilization: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    power_w: float | None
    power_limit_w: float | None
    energy_j: Annotated[float | None, Field(description="Since its driver was loaded; read every two minutes.")]
    temperature_c: float | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    throttled_by: list[str] | None
    pcie_rx_bytes_per_s: float | None
    pcie_tx_bytes_per_s: float | None
    utilization_mean: float | None
    utilization_peak: float | None
    counter_sm: float | None
    counter_occupancy: float | None
    counter_tensor: float | None
    counter_dram: float | None
    counter_floating: float | None
    holders: list[Holder] | None
    unknown: Why
    claim: Claim | None
    protection: Annotated[ListedProtection | None, Field(description="The protection on it that lasts longest.")]
    left_alone: Annotated[str | None, Field(description="Why rules leave a job on it alone.")]
    stops_at: Annotated[Time | None, Field(description="When its job is asked to end, if it goes on as now.")]
    warns_at: Annotated[Time | None, Field(description="When that job is warned before; null once it was.")]
    killed_at: Annotated[Time | None, Field(description="When what is left of a job that was asked is killed.")]
    stop_held_back: Annotated[str | None, Field(description="Why a stop that is due is not done.")]
    paused: Annotated[str | None, Field(description="The condition that cannot be told, so that no rule counts.")]
    waiting: int
    filler: GpuFiller | None


class Status(Versioned):
    """All GPUs at the last tick: what `fallow status --json` prints."""

    host: str
    simulated: bool
    at: Time
    available: Annotated[int, Field(description="GPUs that are available now: free or filled.")]
    counts: Annotated[dict[Activity, int], Field(description="How many GPUs do what.")]
    gpus: list[Gpu]
    parked: Annotated[list[Parked], Field(description="The jobs whose memory is off their GPUs.")]


IdleGpu = _like(idle_answer.IdleAnswer, "IdleGpu", "Whether one GPU is idle; null if that cannot be told.")


class Idle(Versioned):
    """Whether all GPUs asked for have been idle for so long; null if that cannot be told."""

    idle: bool | None
    asked_for_s: float
    gpus: list[IdleGpu]  # type: ignore[valid-type]  # made above


class Interval(BaseModel):
    """One activity of one GPU, with the same holders throughout."""

    begin: Time
    end: Time
    activity: Activity
    users: list[str]


class GpuHistory(BaseModel):
    """What one GPU did, in order; where nobody watched, there is nothing."""

    uuid: str
    gpu: str
    intervals: list[Interval]


class History(Versioned):
    """What each GPU did over a span of time."""

    since: Time
    until: Time
    gpus: list[GpuHistory]


HistoryGpu = _like(interval.Card, "HistoryGpu", "A GPU that history knows.")
HistoryGpus = _list_of(HistoryGpu, "HistoryGpus", "gpus", "Every GPU that history knows.")
Party = _like(interval.Party, "Party", "Whose time it was: `-` is nobody, `?` is an unknown user.")
Tally = _like(
    interval.Interval,
    "Tally",
    "Witnessed time of one GPU, one activity and the same holders, between two moments.",
    activity=Activity,
    parties=list[Party],  # type: ignore[valid-type]  # made above
)
Tallies = _list_of(Tally, "Tallies", "tallies", "Witnessed time between each two moments.")


class Stretches(Versioned):
    """What one GPU did, in order."""

    activities: Annotated[
        list[list[int | Activity]],
        Field(description="From when, until when (ms since the epoch), what."),
    ]


Prices = _like(
    money.Prices,
    "Prices",
    "What an hour of a GPU costs: one price for all, and others by name or UUID.",
    Versioned,
    named=Annotated[list[list[str | float]], Field(description="Pairs of a name or a UUID and a price.")],
)


ProtectedForGood = _like(
    protections.ProtectedForGood, "ProtectedForGood", "What `[protect]` of the config names.", Versioned
)


class Daemon(Versioned):
    """The daemon itself."""

    fallow: str
    simulated: str | None
    pid: int
    user: str
    config: str | None
    dry_run: bool | None
    up_s: float | None
    looked_s_ago: float | None


Rule = _like(
    board.Counting,
    "Rule",
    "How far an idle rule has counted of one job, and what follows.",
    fault=Literal["idle", "stuck"],
    action=Annotated[
        Literal["report", "warn", "ask", "kill", "nothing"], Field(description="What follows if it goes on.")
    ],
    in_s=float | None,
)
Rules = _list_of(Rule, "Rules", "rules", "What the idle rules count.")
Mistake = _like(mistake.Mistake, "Mistake", "One mistake in the config.")
Reloaded = _like(
    reload.Reloaded,
    "Reloaded",
    "What came of a reload: loaded, or why not, with every mistake of the config.",
    Versioned,
    mistakes=list[Mistake],  # type: ignore[valid-type]  # made above
)
Filler = _like(board.FillerView, "Filler", "One filler's place.", Reasoned, reason=str)
Fillers = _list_of(Filler, "Fillers", "fillers", "The fillers.")
Guard = _like(board.GuardView, "Guard", "One guard.", Reasoned, reason=str)
Guards = _list_of(Guard, "Guards", "guards", "The guards.")


class Protection(Versioned, ListedProtection):
    """A protection that was placed."""


Parkeds = _list_of(Parked, "Parkeds", "parked", "The jobs that are parked, or on their way.")


class WokenJob(Parked):
    """A parked job that is meant, and why it cannot be woken now; null if it is being woken."""

    refused: str | None


Woken = _list_of(WokenJob, "Woken", "jobs", "The parked jobs that are meant.")
Protections = _list_of(ListedProtection, "Protections", "protections", "The protections in force.")


class Event(BaseModel):
    """One line of the journal: a verdict, an action, its outcome, or a refusal."""

    id: int
    at: Time
    kind: str
    subject: str
    finding: str
    because: str
    evidence: list[tuple[str, str]]
    reason: str
    facts: list[tuple[str, str | float]]


Events = _list_of(Event, "Events", "events", "The last lines of the journal.")
