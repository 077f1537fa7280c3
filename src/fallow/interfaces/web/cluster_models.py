"""The schema of `/api/v1/cluster`, for OpenAPI; the values are those of `fallow status --cluster --json`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from fallow.core.cluster import Engine
from fallow.interfaces.web.models import Reasoned, Time, Versioned, Why

UseActivity = Literal["busy", "idle", "unknown"]


class Use(BaseModel):
    """What one GPU of a job did since the last look, and why fallow thinks so."""

    place: str
    activity: UseActivity
    because: str


class Job(Reasoned):
    """One job that holds GPUs, over all its nodes."""

    key: Annotated[str, Field(description="What identifies it in the journal.")]
    subject: Annotated[str, Field(description="What commands call it: slurm:1234, deployment:NAMESPACE/NAME.")]
    name: Annotated[str | None, Field(description="Of Slurm's jobs only for their user and root.")]
    user: Annotated[str, Field(description="Empty where the engine does not know it.")]
    gpus: int
    idle_gpus: Annotated[int, Field(description="How many of them are idle now.")]
    unknown_gpus: int
    nodes: list[str]
    labels: Annotated[dict[str, str], Field(description="Partition, account, qos or namespace.")]
    interactive: bool
    started: Time | None
    activity: Annotated[Literal["filled", "busy", "idle", "unknown"], Field(description="filled: it is a filler.")]
    idle_s: Annotated[float, Field(description="For how long all its GPUs were witnessed idle.")]
    could_do_with: Annotated[int | None, Field(description="How many GPUs it has used at most, if fewer.")]
    rule: Annotated[str, Field(description="The rule that counts for it; empty if none does.")]
    next: Literal["report", "warn", "ask", "kill", "nothing"]
    in_s: float | None
    refused: str | None
    left_alone: str | None
    opt_out: str | None
    no_way: str | None
    uses: Annotated[list[Use], Field(description="Only where one job is asked for.")]
    unknown: Why


class Node(BaseModel):
    """One node with GPUs."""

    name: str
    gpus: int
    held: Annotated[int | None, Field(description="null where that is not known, as idle.")]
    idle: int | None
    filled: Annotated[int | None, Field(description="Of those that are held, how many fillers hold.")]
    labels: dict[str, str]
    trouble: Annotated[str | None, Field(description="Why no job can begin there.")]
    unknown: Why


class Cluster(Versioned):
    """The cluster at its last look: what `fallow status --cluster --json` prints."""

    engine: Engine
    at: Time
    acts: Annotated[bool, Field(description="Whether a rule may act at all.")]
    troubles: Annotated[list[str], Field(description="What could not be read; meanwhile nothing is stopped.")]
    jobs_listed: Annotated[bool, Field(description="Whether the engine listed its jobs at the last look.")]
    total_gpus: int | None
    free_gpus: Annotated[int | None, Field(description="Nobody holds them, and jobs can begin there.")]
    filled_gpus: Annotated[int | None, Field(description="Only fillers hold them: as available as free ones.")]
    busy_gpus: Annotated[int | None, Field(description="null where jobs or metrics could not be read, as idle_gpus.")]
    idle_gpus: Annotated[int | None, Field(description="Held by jobs, and not used.")]
    unknown_gpus: int | None
    out_gpus: Annotated[int | None, Field(description="Nobody but fillers holds them, and no job can begin there.")]
    pending_gpus: Annotated[int | None, Field(description="What the jobs that wait have asked for.")]
    unknown: Why
    jobs: Annotated[list[Job], Field(description="Those that waste most GPUs come first.")]
    more_jobs: int
    nodes: list[Node]
    more_nodes: int
