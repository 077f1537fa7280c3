"""Make values of the API's JSON: what is null there, with its reason in `unknown`, becomes Unknown.

What is not in the JSON (the floor of memory, births, how long samples span) is not rebuilt: the commands that ask
the daemon show what its JSON shows. Facts of the wrong shape raise KeyError, TypeError or ValueError.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Any, TypeVar

from fallow.core.activity import Activity
from fallow.core.board import Counting
from fallow.core.findings import Event
from fallow.core.gpu import COUNTED, HOLDER_FACTS, PLAIN_READINGS, Counters, Holder, Memory, MigPlace, Recent
from fallow.core.gpu_status import GpuStatus, Status
from fallow.core.interval import Interval, Party
from fallow.core.owner import Owner, OwnerKind
from fallow.core.parked import ParkedJob, ParkStage
from fallow.core.process import Process
from fallow.core.protections import ProtectedForGood, Protection, parse_target
from fallow.core.reasons import Reason, WithReason
from fallow.core.reservations import Claim
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.core.cluster_view import ClusterView, JobLine

Facts = Mapping[str, Any]
T = TypeVar("T")
_NOT_AS_IN_JOB_LINE = ("reason", "started_wall_s", "action", "in_s", "uses", "nodes", "name", "activity")


def status(facts: Facts) -> Status:
    """Return all GPUs of one tick."""
    gpus, jobs = tuple(map(gpu, facts["gpus"])), tuple(map(parked, facts["parked"]))
    return Status(facts["host"], facts["simulated"], wall_s(facts["at"]), gpus, jobs)


def parked(facts: Facts) -> ParkedJob:
    """Return one parked job; of its processes only the first has its birth."""
    first = Process(facts["pid"], facts["birth"])
    return ParkedJob(
        first,
        tuple(first if pid == first.pid else Process(pid, 0) for pid in facts["pids"]),
        facts["user"],
        facts["job"],
        tuple((each["uuid"], each["memory_bytes"]) for each in facts["gpus"]),
        wall_s(facts["since"]),
        stage=ParkStage(facts["stage"]),
        trouble=facts["trouble"] or "",
    )


def gpu(facts: Facts) -> GpuStatus:
    """Return the status of one GPU."""
    total, used = fact(facts, "memory_total_bytes"), fact(facts, "memory_used_bytes")
    mean, peak = fact(facts, "utilization_mean"), fact(facts, "utilization_peak")
    throttled_by, holders = fact(facts, "throttled_by"), fact(facts, "holders")
    slot, filler = facts["mig_slot"], facts["filler"]
    return GpuStatus(
        index=facts["index"],
        **{name: fact(facts, name) for name in PLAIN_READINGS},
        memory=total if isinstance(total, Unknown) else Memory(total, used, total - used, 0),
        holders=holders if isinstance(holders, Unknown) else tuple(_holder(each) for each in holders),
        mig=None if slot is None else MigPlace(slot, fact(facts, "mig_parent_uuid"), NOT_ASKED),
        recent=mean if isinstance(mean, Unknown) else Recent(0.0, mean, peak),
        throttled_by=throttled_by if isinstance(throttled_by, Unknown) else tuple(throttled_by),
        counters=_counters(facts),
        activity=Activity(facts["activity"]),
        reason=reason(facts),
        for_s=facts["for_s"],
        claim=_claim(fact(facts, "claim")),
        waiting=facts["waiting"],
        filler=None if filler is None else Claim(shared=False, user=filler["user"], command=filler["command"]),
        filler_pids=() if filler is None else tuple(filler["pids"]),
    )


def event(facts: Facts) -> Event:
    """Return one line of the journal."""
    return value(Event, {"keys": (), **facts, "wall_s": wall_s(facts["at"])})


def protection(facts: Facts) -> Protection:
    """Return one protection; one without an end lasts until it is released."""
    until_s = inf if facts["until"] is None else wall_s(facts["until"])
    return Protection(facts["id"], parse_target(facts["subject"]), until_s, facts["why"], facts["by"])


def counting(facts: Facts) -> Counting:
    """Return what one idle rule counts of one job."""
    return value(Counting, {**facts, "in_s": inf if facts["in_s"] is None else facts["in_s"]})


def interval(facts: Facts) -> Interval:
    """Return one sum of witnessed time."""
    parties = [value(Party, each) for each in facts["parties"]]
    return value(Interval, {**facts, "activity": Activity(facts["activity"]), "parties": parties})


def protected_for_good(facts: Facts) -> ProtectedForGood:
    """Return what `[protect]` of a config names; raise TypeError for anything but lists of texts."""
    found = value(ProtectedForGood, facts)
    for name in fields(ProtectedForGood):
        given = getattr(found, name)
        if not isinstance(given, tuple) or not all(isinstance(each, str) for each in given):
            raise TypeError(f"{name} is not a list of texts")
    return found


def cluster(facts: Facts) -> "ClusterView":
    """Return the whole cluster."""
    from fallow.core.cluster import Engine
    from fallow.core.cluster_view import ClusterView, GpuState, NodeLine

    return ClusterView(
        Engine(facts["engine"]),
        wall_s(facts["at"]),
        facts["acts"],
        tuple(facts["troubles"]),
        {state.value: fact(facts, f"{state.value}_gpus") for state in GpuState},
        tuple(_job_line(each) for each in facts["jobs"]),
        tuple(NodeLine(**{name: fact(each, name) for name in fields(NodeLine)}) for each in facts["nodes"]),
        fact(facts, "pending_gpus"),
        facts["more_jobs"],
        facts["more_nodes"],
        facts["jobs_listed"],
    )


def value(kind: type[T], facts: Facts) -> T:
    """Return a value whose JSON has the names of its fields."""
    given = {name: _as_tuples(facts[name]) for name in fields(kind)}
    return kind(**(given | {"reason": reason(facts)} if issubclass(kind, WithReason) else given))


def wall_s(text: str) -> float:
    """Return the seconds since the epoch of a time in the JSON."""
    return datetime.fromisoformat(text).timestamp()


def fact(facts: Facts, name: str) -> Any:  # noqa: ANN401  whatever it is
    """Return the fact, or Unknown with its reason."""
    why = facts["unknown"].get(name)
    if facts[name] is not None or why is None:
        return facts[name]
    return NOT_ASKED if why == NOT_ASKED.why else Unknown(why)


def reason(facts: Facts) -> Reason:
    """Return the reason; one that this fallow does not know, or says otherwise, as the sentence that was told."""
    with suppress(KeyError, TypeError, ValueError):
        rebuilt = Reason(facts["reason"], **facts["facts"])
        if str(rebuilt) == facts["because"]:
            return rebuilt
    return Reason("told", sentence=facts["because"])


def _as_tuples(fact: Any) -> Any:  # noqa: ANN401
    return tuple(_as_tuples(each) for each in fact) if isinstance(fact, list) else fact


def _holder(facts: Facts) -> Holder:
    return Holder(**{name: fact(facts, name) for name in HOLDER_FACTS}, owner=_owner(fact(facts, "owner")))


def _owner(facts: Facts | Unknown) -> Owner | Unknown:
    if isinstance(facts, Unknown):
        return facts
    name = Unknown("its engine has not said it") if facts["name"] is None else facts["name"]
    return Owner(OwnerKind(facts["kind"]), facts["id"], name)


def _counters(facts: Facts) -> Counters | Unknown:
    counted = [fact(facts, f"counter_{name}") for name in COUNTED]
    first = counted[0]
    return first if isinstance(first, Unknown) and all(each == first for each in counted) else Counters(*counted)


def _claim(facts: Facts | Unknown | None) -> Claim | Unknown | None:
    if facts is None or isinstance(facts, Unknown):
        return facts
    since_s = None if facts["since"] is None else wall_s(facts["since"])
    names = {name: facts[name] for name in ("shared", "pid", "user", "command")}
    return Claim(**names, since_wall_s=since_s)


def _job_line(facts: Facts) -> "JobLine":
    from fallow.core.cluster_view import GpuState, JobLine

    started = fact(facts, "started")
    return JobLine(
        **{name: facts[name] for name in fields(JobLine) if name not in _NOT_AS_IN_JOB_LINE},
        name=fact(facts, "name"),
        nodes=tuple(facts["nodes"]),
        started_wall_s=started if isinstance(started, Unknown) else wall_s(started),
        activity=GpuState(facts["activity"]),
        reason=reason(facts),
        action=facts["next"],
        in_s=inf if facts["in_s"] is None else facts["in_s"],
        uses=tuple((each["place"], each["activity"], each["because"]) for each in facts["uses"]),
    )
