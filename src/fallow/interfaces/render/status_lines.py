"""Print `fallow status`: first what is available, then a line for each GPU that is never wider than the screen."""

from collections.abc import Callable, Iterator, Sequence
from math import inf

from fallow.core.gpu_status import NO_OUTLOOK, GpuStatus, Outlook, Shown
from fallow.core.main_job import MainJob, main_job
from fallow.core.parked import ParkedJob
from fallow.core.reservations import Claim
from fallow.core.units import duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.interfaces.render.availability_line import availability_lines, model_names
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.render.grid import Cell, Column, Screen, Styled, cells

_PIPED = 80
_WIDE = 120
_NOT_KNOWN = "?"
_BAR = 5
_WORKS = 0.3  # gpustat's users know these two as the limits from which figures are bold
_HOT_C = 50
_LONGEST_USER = 14
_LONGEST_NOTE = len("protected 23h59m")  # a time that is cut reads as another
_GIB = 2**30


@value
class _Line:
    """What the cells of one line are made from."""

    gpu: GpuStatus
    name: str
    job: MainJob | None
    outlook: Outlook
    parked: tuple[ParkedJob, ...]
    wide: bool
    """Whether there is room for a longer note."""


@value
class _Part:
    """One column: the higher its rank, the earlier it is left out; it may be cut to `least`, if that is not 0."""

    head: str
    rank: int
    cell: Callable[[_Line], Cell]
    least: int = 0
    right: bool = False
    from_width: int = 0
    """How wide the screen must be for it, so that it takes no room from more important ones."""


def show(parts: Sequence[Shown | str]) -> None:
    """Print machines, and sentences about others, once."""
    screen = Screen(piped=_PIPED)
    screen.write(frame(screen, parts, lines))


def show_live(looks: Iterator[Sequence[Shown | str]]) -> None:
    """Keep them up to date until Ctrl-C; print one after the other where nothing can be overwritten."""
    screen = Screen(piped=_PIPED)
    screen.redraw(frame(screen, parts, lines) for parts in looks)


def frame(screen: Screen, parts: Sequence[Shown | str], lines_of: Callable[[Screen, Shown], list[str]]) -> list[str]:
    """Return the lines of each machine, and the sentences between them."""
    found: list[str] = []
    for part in parts:
        found += screen.folded([part]) if isinstance(part, str) else lines_of(screen, part)
    return found


def lines(screen: Screen, shown: Shown) -> list[str]:
    """Return the lines, each as wide as the screen at most."""
    status = shown.status
    head = first_line(screen, shown)
    below = [] if shown.remark is None else [screen.cut(printable(shown.remark), screen.width)]
    if not shown.lines:
        return [head, *below]
    names = model_names(status)
    every = [
        _Line(
            gpu,
            names[gpu.name],
            main_job(gpu),
            shown.outlooks.get(gpu.label, NO_OUTLOOK),
            tuple(job for job in status.parked if gpu.uuid in job.uuids),
            screen.width >= _WIDE,
        )
        for gpu in shown.lines
    ]
    without = {"name"} if sum(isinstance(name, str) for name in names) < 2 else set()
    if screen.is_dumb:
        without.add("")  # the bar is for eyes
    columns, made = [], []
    for part in _PARTS:
        below_it = [part.cell(line) for line in every]
        if part.head not in without and any(below_it) and screen.width >= part.from_width:
            columns.append(Column(part.head, right=part.right, least=part.least, rank=part.rank))
            made.append(below_it)
    return [head, *screen.table(columns, list(zip(*made, strict=True))), *below]


def first_line(screen: Screen, shown: Shown) -> str:
    """Return the machine and what is available; with less in it the narrower the screen is."""
    line = ""
    for line in availability_lines(shown.status, shown.visible_devices, shown.to_you):
        if cells(line) <= screen.width:
            break
    text = screen.cut(line, screen.width)
    return screen.styled(Styled(text, "bold yellow" if shown.status.simulated else "bold"))


def _bar(line: _Line) -> Cell:
    load = line.gpu.utilization
    if isinstance(load, Unknown):
        return ""
    full = min(_BAR, round(load * _BAR))
    return Styled("█" * full + "░" * (_BAR - full), _load_style(load))


def _util(line: _Line) -> Cell:
    load = line.gpu.utilization
    return _NOT_KNOWN if isinstance(load, Unknown) else Styled(f"{load:.0%}", _load_style(load))


def _load_style(load: float) -> str:
    return "bold green" if load >= _WORKS else "green"


def _memory(line: _Line) -> Cell:
    """Return `71.2/80.0 GiB`."""
    memory = line.gpu.memory
    if isinstance(memory, Unknown):
        return _NOT_KNOWN
    return Styled(f"{_gib(memory.used_bytes)}/{_gib(memory.total_bytes)} GiB", "yellow")


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.{0 if not size_bytes or size_bytes >= 100 * _GIB else 1}f}"


def _power(line: _Line) -> Cell:
    power = line.gpu.power_w
    return _NOT_KNOWN if isinstance(power, Unknown) else Styled(f"{power:.0f} W", "magenta")


def _temperature(line: _Line) -> Cell:
    degrees = line.gpu.temperature_c
    if isinstance(degrees, Unknown):
        return _NOT_KNOWN
    return Styled(f"{degrees} °C", "bold red" if degrees >= _HOT_C else "red")


def _user(line: _Line) -> Cell:
    if line.job is None:
        return ""
    return (
        _NOT_KNOWN if isinstance(line.job.user, Unknown) else Styled(shortened(line.job.user, _LONGEST_USER), "bold")
    )


def _pid(line: _Line) -> Cell:
    return "" if line.job is None or line.job.pid is None else str(line.job.pid)


def _job(line: _Line) -> Cell:
    job = line.job
    if job is None:
        return ""
    more = f" +{job.more}" if job.more else ""
    return Styled(shortened(job.what, 200), "", more, shortened(job.script, 200))


def _note(line: _Line) -> Cell:
    """Return what follows for the GPU: `stops in 18s`, `stop held back`, `protected 29m`; what is not known too.

    What matters most stands first, since a long note is cut at its end.
    """
    gpu, left_s, stops, warns = line.gpu, line.outlook.protected_s, line.outlook.stops_in_s, line.outlook.warns_in_s
    warned = f" (warned in {_about(warns)})" if warns is not None and line.wide else ""
    notes = [f"stops in {_about(stops)}{warned}"] if stops is not None else []
    killed = line.outlook.killed_in_s
    notes += [f"killed in {duration_for_people(round(killed))} (asked to end)"] if killed is not None else []
    notes += ["stop held back"] if line.outlook.kept_back is not None else []
    if isinstance(left_s, Unknown):
        notes.append("protection unknown")
    elif left_s is not None and left_s != inf:
        notes.append(f"protected {_about(left_s)}")
    elif line.outlook.is_protected:
        notes.append("protected")
    if isinstance(gpu.claim, Unknown):
        notes.append("claim unknown")
    elif isinstance(gpu.claim, Claim) and line.job is not None and gpu.claim.user not in (None, line.job.user):
        notes.append(f"claimed by {gpu.claim.user}")
    notes += [f"{gpu.waiting} waiting"] if gpu.waiting else []
    notes += [f"parked: {job.user}" for job in line.parked]
    soon = killed is not None or (stops is not None and warns is None)
    style = "bold red" if soon else "cyan"
    return Styled(printable(", ".join(notes)), style) if notes else ""


def _about(seconds: float) -> str:
    """Return a duration without the seconds that nobody counts."""
    return duration_for_people(round(seconds) if seconds < 120 else round(seconds / 60) * 60)


def _why(line: _Line) -> Cell:
    """Return why it is judged so, unless that stands in place of a job."""
    if line.job is None or line.job.what == line.gpu.because:
        return ""
    return printable(line.gpu.because)


_PARTS = (
    _Part("GPU", 0, lambda line: Styled(line.gpu.label, "cyan")),
    _Part("name", 8, lambda line: Styled(line.name, "blue"), least=8),
    _Part("activity", 1, lambda line: Styled(line.gpu.activity.value, LOOKS[line.gpu.activity].terminal)),
    _Part("for", 3, lambda line: "" if line.gpu.for_s is None else duration_for_people(line.gpu.for_s), right=True),
    _Part("", 9, _bar),
    _Part("util", 5, _util, right=True),
    _Part("memory", 7, _memory, right=True),
    _Part("power", 10, _power, right=True),
    _Part("temp", 11, _temperature, right=True),
    _Part("user", 2, _user, least=6),
    _Part("pid", 12, _pid, right=True, from_width=110),
    _Part("note", 4, _note, least=_LONGEST_NOTE),
    _Part("job", 6, _job, least=12),
    _Part("because", 13, _why, least=30, from_width=160),
)
"""All columns, from left to right. Where they do not fit, those with the highest rank are left out first."""
