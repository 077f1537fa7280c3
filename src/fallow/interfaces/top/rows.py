"""What `fallow top` shows of a look: which GPUs, in which order, which are available, and when a rule acts. Pure."""

from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.board import Counting
from fallow.core.gpu_status import GpuStatus, Status, load_of
from fallow.core.protections import Affected, AffectedProcess, covering
from fallow.core.reservations import Claim
from fallow.core.selection import select, visible
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.jobs.protections import affected_by
from fallow.interfaces.render.availability_line import availability_lines
from fallow.interfaces.top.look import Look

_STOPS = frozenset(("ask", "kill", "park"))
_IN_SECONDS_S = 120.0
_LONGEST_RANGES = 20
_NOT_KNOWN = Unknown("not known")


@value
class Filter:
    """Which GPUs and jobs a person wants to see; all if it names nothing."""

    users: frozenset[str] = frozenset()
    activities: frozenset[Activity] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """Return the filter of some words: each is an activity, or else the name of a user."""
        words = text.replace(",", " ").split()
        named = {activity.value: activity for activity in Activity}
        activities = frozenset(named[word] for word in words if word in named)
        return cls(frozenset(word for word in words if word not in named), activities)

    def __str__(self) -> str:
        activities = (each.value for each in Activity if each in self.activities)
        return " ".join([*sorted(self.users), *activities])

    def shows(self, gpu: GpuStatus) -> bool:
        """Return whether the GPU is shown. One whose users are not known may be theirs, and is."""
        if self.activities and gpu.activity not in self.activities:
            return False
        return not self.users or any(isinstance(user, Unknown) or user in self.users for user in users_on(gpu))

    def shows_user(self, user: str | Unknown) -> bool:
        """Return whether jobs of this user are shown."""
        return not self.users or isinstance(user, Unknown) or user in self.users


def users_on(gpu: GpuStatus) -> list[str | Unknown]:
    """Return who is on a GPU: its holders, the user of its claim, and of its filler."""
    found: dict[str | Unknown, None] = {}
    if isinstance(gpu.holders, Unknown):
        found[_NOT_KNOWN] = None
    else:
        found.update(
            (_NOT_KNOWN if isinstance(holder.user, Unknown) else holder.user, None) for holder in gpu.holders
        )
    for claim in (gpu.claim, gpu.filler):
        if isinstance(claim, Unknown):
            found[_NOT_KNOWN] = None
        elif isinstance(claim, Claim):
            found[claim.user or _NOT_KNOWN] = None
    return list(found)


@value
class Next:
    """What a rule does next, in a word or two, and after how many seconds."""

    words: str = ""
    """For the column `stops in`."""
    in_s: float = inf
    protected: bool = False
    stops: bool = False
    """Whether that is a stop of a job that was warned."""
    sentence: str = ""
    """The same where there is room; empty if the words say it all."""

    @property
    def told(self) -> str:
        """Return what a line says that has no head above it."""
        return self.sentence or self.words


def next_for(
    look: Look, uuids: Collection[object], pids: Collection[int], processes: tuple[AffectedProcess, ...]
) -> Next:
    """Return what happens next to these GPUs, or to the job with these processes if `pids` names any."""
    rules = [each for each in look.counting if is_about(each, uuids, pids) and each.not_judged is None]
    found = min(map(_next, rules), key=lambda each: (each.in_s, not each.words), default=Next())
    protections = () if isinstance(look.protections, Unknown) else look.protections
    touched = Affected(frozenset(str(uuid) for uuid in uuids), processes)
    if covering(protections, touched, look.status.wall_s) or any(each.left_alone is not None for each in rules):
        return Next("protected", inf, protected=True)
    return found


def next_on(look: Look, gpu: GpuStatus) -> Next:
    """Return what happens next to the jobs of a GPU."""
    touched = affected_by([gpu])
    return next_for(look, touched.gpus, (), touched.processes)


_HELD_BACK = Next("held back", sentence="a stop is due, and held back")


def _stopped(in_s: float, warns_in_s: float | None) -> Next:
    warned = "" if warns_in_s is None else f" (warned in {_when(warns_in_s)})"
    return Next(_when(in_s), in_s, stops=warns_in_s is None, sentence=f"stops in {_when(in_s)}{warned}")


def _killed(in_s: float) -> Next:
    return Next(f"kill {_short(in_s)}", in_s, stops=True, sentence=f"asked to end; killed in {_when(in_s)}")


def _short(in_s: float) -> str:
    """Return a duration in one unit, to go with a word in a narrow column."""
    whole = int(in_s)
    sizes = ((86400, "d"), (3600, "h"), (60, "m"))
    return next((f"{whole // size}{unit}" for size, unit in sizes if whole >= size), f"{whole}s")


def _when(in_s: float) -> str:
    step_s = 1.0 if in_s < _IN_SECONDS_S else 60.0
    return duration_for_people(in_s // step_s * step_s)


def is_about(each: Counting, uuids: Collection[object], pids: Collection[int]) -> bool:
    """Return whether a rule counts a job on these GPUs, or with one of these processes if `pids` names any."""
    if pids:
        return any(key.startswith(f"pid:{pid}@") for pid in pids for key in each.processes)
    return not set(uuids).isdisjoint(each.uuids)


def _next(each: Counting) -> Next:
    if each.left_alone is not None:
        return Next("protected")
    if each.paused is not None:
        return Next("paused")
    if each.refused is not None:
        return _HELD_BACK if each.action in _STOPS and each.for_s else Next("refused")
    if each.held_back is not None:
        return Next("if wanted")
    if not each.is_due:
        return Next()
    if each.action == "kill":
        return _killed(each.in_s)
    if each.stops_in_s is not None:
        return _stopped(each.stops_in_s, each.in_s if each.action == "warn" else None)
    return Next(f"{each.action} {_short(each.in_s)}", each.in_s, sentence=f"{each.action} in {_when(each.in_s)}")


Key = Callable[[Look, GpuStatus], tuple[float, ...] | tuple[str, ...]]


def _number(reading: float | Unknown | None) -> float:
    """Return a reading to sort by, the largest first; what is not known comes last."""
    return inf if isinstance(reading, Unknown) or reading is None else -reading


def _first_user(gpu: GpuStatus) -> str:
    names = sorted(user for user in users_on(gpu) if isinstance(user, str))
    return names[0] if names else "\U0010ffff"  # nobody comes last


SORTS: dict[str, Key] = {
    "index": lambda _, __: (0.0,),
    "activity": lambda _, gpu: (float(list(Activity).index(gpu.activity)),),
    "for": lambda _, gpu: (_number(gpu.for_s),),
    "utilization": lambda _, gpu: (_number(load_of(gpu)),),
    "memory": lambda _, gpu: (_number(gpu.memory if isinstance(gpu.memory, Unknown) else gpu.memory.used_bytes),),
    "power": lambda _, gpu: (_number(gpu.power_w),),
    "temp": lambda _, gpu: (_number(gpu.temperature_c),),
    "user": lambda _, gpu: (_first_user(gpu),),
    "stops": lambda look, gpu: (next_on(look, gpu).in_s,),
}
"""The orders, each by the name of its column; in each of them GPUs that are equal stay in order."""


def shown_gpus(look: Look, named: str | None, only: Filter, sort: str) -> list[GpuStatus]:
    """Return the GPUs to show, in their order. `named`: those that are meant."""
    labels = {gpu.label for gpu in (look.status.gpus if named is None else select(named, look.status.gpus))}
    listed = [gpu for gpu in look.status.gpus if gpu.label in labels]
    return sorted(filter(only.shows, listed), key=lambda gpu: SORTS[sort](look, gpu))


def summary(status: Status, visible_devices: str | None, width: int) -> str:
    """Return the first line: the machine and what is available, with less in it the narrower the screen is."""
    allowed = frozenset(gpu.label for gpu in visible(visible_devices, status.gpus))
    lines = list(availability_lines(status, visible_devices, status.among(allowed).available))
    return next((line for line in lines if len(line) <= width), lines[-1])


def to_have(look: Look, visible_devices: str | None) -> str:
    """Return which GPUs this user can have now: `you can have GPU 0-2,5`."""
    allowed = {gpu.label for gpu in visible(visible_devices, look.status.gpus)}
    labels = [gpu.label for gpu in look.status.gpus if gpu.label in allowed and gpu.activity in AVAILABLE]
    return f"you can have GPU {in_ranges(labels)}" if labels else "you can have no GPU now"


def second_line(look: Look, visible_devices: str | None, width: int, chosen: Sequence[str]) -> tuple[str, str]:
    """Return which GPUs this user can have, and what is `chosen` and who told it. The last is left out first."""
    have = to_have(look, visible_devices)
    told = f"from {look.source}" if look.rules is not None else look.source
    for parts in ([*chosen, told], chosen if look.rules is not None else [*chosen, told]):
        said = "  " + "; ".join(parts) if parts else ""
        if len(have) + len(said) <= width:
            break
    return have, said


def some_of(labels: Sequence[str]) -> str:
    """Return GPUs for a line that has more to say: `GPU 0-2,5`, and of many the first ones and how many there are."""
    told = in_ranges(labels)
    if len(told) <= _LONGEST_RANGES:
        return f"GPU {told}"
    return f"{len(labels)} GPUs ({told[:_LONGEST_RANGES].rpartition(',')[0]},…)"


def in_ranges(labels: Iterable[str]) -> str:
    """Return labels with neighbours joined: `0-2,5,7:1`."""
    joined: list[list[str]] = []
    for label in labels:
        last = joined[-1][-1] if joined else ""
        if label.isdigit() and last.isdigit() and int(label) == int(last) + 1:
            joined[-1].append(label)
        else:
            joined.append([label])
    return ",".join(part[0] if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in joined)
