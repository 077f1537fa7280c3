"""The cells of the table of GPUs, and how wide each column is. Text of others is never read as markup."""

from collections import deque
from collections.abc import Callable

from rich.text import Text

from fallow.core.activity import Activity
from fallow.core.gpu_status import GpuStatus, load_of
from fallow.core.main_job import main_job
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.top.look import Look
from fallow.interfaces.top.rows import next_on, users_on

_NOT_KNOWN = "?"
_EIGHTHS = "▁▂▃▄▅▆▇█"
_PARTS = " ▏▎▍▌▋▊▉█"
_MOST_KEPT = 4000
_MOMENT_S = 1e-6
_SPAN_S = 300.0
_STEPS_S = (1.0, 2.0, 3.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 18.0, 20.0, 22.0, 25.0, 30.0, 35.0, 40.0, 45.0, 60.0)
_GIB = 2**30
_LEAST_BAR = 2
STALE = "bright_black"
"""The colour of all that is no longer known to be so."""
_ORDER = ("index", "activity", "for", "utilization", "last", "memory", "power", "temp", "user", "job", "stops")
_NARROWEST = dict(zip(_ORDER, (4, 9, 7, 5, 8, 8, 6, 5, 8, 10, 10), strict=True))
"""The columns in their order, with their least widths, the gap included: 80 in all."""
_WIDEST = {"utilization": 15, "last": 61, "user": 13, "memory": 12}
_HEADS = {"index": "GPU", "utilization": "util", "stops": "stops in"}
HEADS = {name: _HEADS.get(name, name) for name in _NARROWEST}
"""What stands above each column."""
NUMBERS = frozenset(("utilization", "memory", "power", "temp"))
"""The columns that are aligned to the right."""


@value
class _Sample:
    """What a GPU did at one look."""

    at_s: float
    load: float | None
    activity: Activity
    lasts_s: float = 0.0
    """For how long it was so; 0 for a moment."""


class Trend:
    """The load and the activity of each GPU in the last minutes."""

    def __init__(self) -> None:
        self._of: dict[str, deque[_Sample]] = {}
        self._began_s = self._now_s = 0.0

    def add(self, look: Look) -> None:
        """Remember one look; GPUs that are gone are forgotten after some minutes."""
        at_s = look.at_s
        self._began_s, self._now_s = self._began_s or at_s, at_s
        for gpu in look.status.gpus:
            load = load_of(gpu)
            past = self._of.setdefault(gpu.label, deque(maxlen=_MOST_KEPT))
            past.append(_Sample(at_s, None if isinstance(load, Unknown) else load, gpu.activity))
            self._add_past(look, gpu.label, past)
        for past in self._of.values():
            while past and at_s - past[0].at_s > _SPAN_S + _STEPS_S[-1]:
                past.popleft()
        self._of = {label: past for label, past in self._of.items() if past}

    def _add_past(self, look: Look, label: str, past: "deque[_Sample]") -> None:
        """Put what the daemon remembers before what was seen here."""
        for step in reversed(look.past.get(label, ())):
            at_s = look.at_s - (look.status.wall_s - step.begin_wall_s)
            lasts_s = min(step.lasts_s, (past[0].at_s if past else self._now_s) - at_s)
            if lasts_s > 0 and self._now_s - at_s <= _SPAN_S and len(past) < _MOST_KEPT:
                past.appendleft(_Sample(at_s, step.load, step.activity, lasts_s))
                self._began_s = min(self._began_s, at_s)

    def step_s(self, width: int) -> float:
        """Return how many seconds a letter stands for: few at first, then so many that the line has five minutes."""
        span_s = min(_SPAN_S, self._now_s - self._began_s)
        return next((step for step in _STEPS_S if step * width >= span_s), _STEPS_S[-1])

    def line(self, label: str, width: int) -> Text:
        """Return the last minutes of a GPU, now at the right: as high as its load, in its activity's colour."""
        step_s = self.step_s(width)
        first = int(self._now_s // step_s) - width + 1
        parts: dict[int, list[_Sample]] = {}
        for sample in self._of.get(label, ()):
            last_s = max(sample.at_s, sample.at_s + sample.lasts_s - _MOMENT_S)
            for at in range(int(sample.at_s // step_s), int(last_s // step_s) + 1):
                parts.setdefault(at - first, []).append(sample)
        drawn = Text(no_wrap=True)
        for at in range(width):
            samples = parts.get(at)
            if samples is None:
                drawn.append(" ")
                continue
            loads = [sample.load for sample in samples if sample.load is not None]
            letter = _eighth(sum(loads) / len(loads)) if loads else _NOT_KNOWN
            drawn.append(letter, LOOKS[samples[-1].activity].terminal)
        return drawn


def _eighth(load: float) -> str:
    return _EIGHTHS[min(len(_EIGHTHS) - 1, max(0, round(load * (len(_EIGHTHS) - 1))))]


def widths(width: int) -> dict[str, int]:
    """Return how wide each column is in so much room: first the load's past gets what is left, then the job."""
    found = dict(_NARROWEST)
    left = max(0, width - sum(found.values()))
    for name, share in (("utilization", 0.2), ("memory", 0.2), ("user", 0.2), ("last", 0.4)):
        found[name] += min(int(left * share), _WIDEST[name] - found[name])
    found["job"] += max(0, width - sum(found.values()))
    return found


@value
class Row:
    """A line of the table, and what its cells need beside it."""

    gpu: GpuStatus
    look: Look
    trend: Trend
    stale: bool


def cells(row: Row, wide: dict[str, int]) -> list[Text]:
    """Return the cells of a GPU, each cut to its column."""
    made = []
    for name, whole in wide.items():
        width = whole - (name != "stops")  # a gap, but behind the last
        cell = _CELLS[name](row, width)
        if row.stale:
            cell = Text(cell.plain, STALE)
        cell.no_wrap = True
        cell.truncate(width, overflow="ellipsis")
        made.append(cell)
    return made


def _bar(row: Row, width: int) -> Text:
    load = load_of(row.gpu)
    if isinstance(load, Unknown):
        return Text(_NOT_KNOWN.rjust(width))
    room = width - 5
    if room < _LEAST_BAR:
        return Text(f"{load:.0%}".rjust(width))
    eighths = round(min(1.0, max(0.0, load)) * room * 8)
    bar = ("█" * (eighths // 8) + _PARTS[eighths % 8].strip()).ljust(room)
    return Text.assemble((bar, LOOKS[row.gpu.activity].terminal), f" {load:>4.0%}")


def _memory(row: Row, width: int) -> Text:
    memory = row.gpu.memory
    if isinstance(memory, Unknown):
        return Text(_NOT_KNOWN.rjust(width))
    used, total = memory.used_bytes / _GIB, memory.total_bytes / _GIB
    told = (f"{used:.{decimals}f}/{total:.0f}G" for decimals in ((1, 0) if memory.used_bytes else (0,)))
    return Text(next((words for words in told if len(words) <= width), f"{used:.0f}G").rjust(width))


def _users(row: Row, _: int) -> Text:
    users, job = users_on(row.gpu), main_job(row.gpu)
    if job is not None:
        users.sort(key=lambda user: user != job.user)  # the one whom status names stands first
    names = [_NOT_KNOWN if isinstance(user, Unknown) else printable(user) for user in users]
    return Text(",".join(names))


def _job(row: Row, width: int) -> Text:
    """Return the job as `fallow status` names it."""
    gpu = row.gpu
    if gpu.trouble is not None:
        return Text(printable(gpu.trouble), "red")
    if isinstance(gpu.holders, Unknown):
        return Text(_NOT_KNOWN)
    job = main_job(gpu)
    if job is None:
        return Text("")
    more = f" +{job.more}" if job.more else ""
    room = max(1, width - len(more))
    texts = [Text(printable(words)) for words in (job.named, job.what, job.script)]
    told = next((text for text in texts if text.cell_len <= room), texts[-1])
    told.truncate(room, overflow="ellipsis")
    return told.append(more)


def _stops(row: Row, _: int) -> Text:
    found = next_on(row.look, row.gpu)
    return Text(found.words, "green" if found.protected else "red" if found.stops else "")


def _reading(number: float | Unknown, unit: str, width: int) -> Text:
    return Text((_NOT_KNOWN if isinstance(number, Unknown) else f"{number:.0f}{unit}").rjust(width))


_CELLS: dict[str, Callable[[Row, int], Text]] = {
    "index": lambda row, _: Text(row.gpu.label, "bold"),
    "activity": lambda row, _: Text(row.gpu.activity.value, LOOKS[row.gpu.activity].terminal),
    "for": lambda row, _: Text("" if row.gpu.for_s is None else duration_for_people(int(row.gpu.for_s))),
    "utilization": _bar,
    "last": lambda row, width: row.trend.line(row.gpu.label, width),
    "memory": _memory,
    "power": lambda row, width: _reading(row.gpu.power_w, "W", width),
    "temp": lambda row, width: _reading(row.gpu.temperature_c, "°C", width),
    "user": _users,
    "job": _job,
    "stops": _stops,
}
