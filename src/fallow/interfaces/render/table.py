"""Print the table of `fallow status` and the tables of other commands."""

from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, Shown, Status, people_on
from fallow.core.units import bytes_for_people, duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.render.grid import Cell, Column, Screen, Styled

_HOLDERS_SHOWN = 4
_NOT_KNOWN = "?"
_LONGEST_LIST = 40


def show(shown: Shown) -> None:
    """Print the table once."""
    screen = Screen()
    screen.write(_lines(screen, shown))


def show_live(looks: Iterator[Shown]) -> None:
    """Keep one table up to date until Ctrl-C; print one after the other where nothing can be overwritten."""
    screen = Screen()
    screen.redraw(_lines(screen, shown) for shown in looks)


def show_rows(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a plain table: the first and last columns aligned to the left, the others to the right."""
    screen = Screen()
    heads = [Column(name, right=0 < at < len(columns) - 1, folds=True) for at, name in enumerate(columns)]
    above = [] if title is None else [screen.styled(Styled(title, "bold yellow"))]
    screen.write([*above, *screen.table(heads, _printable(rows))])


def show_hours(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], words: int, file: TextIO | None
) -> None:
    """Print a report: the first `words` columns are text, the others numbers, headed in their activity's colour."""
    screen = Screen(file)
    coloured = [Styled(head, LOOKS[Activity(head)].terminal) if head in list(Activity) else head for head in heads]
    columns = [Column(head, right=at >= words, folds=True) for at, head in enumerate(coloured)]
    screen.write([screen.styled(Styled(title, "bold")), *screen.table(columns, _printable(rows))])


def _printable(rows: Sequence[Sequence[str]]) -> list[list[Cell]]:
    return [[printable(cell) for cell in row] for row in rows]


def _lines(screen: Screen, shown_now: Shown) -> list[str]:
    """Return the lines of the table. Columns that do not fit are left out, so that the reasons stay readable."""
    width, status = screen.width, shown_now.status
    shown = dict(_COLUMNS)
    if all(gpu.for_s is None for gpu in status.gpus):
        del shown["for"]
    for name, needs in _NEEDS_WIDTH.items():
        if width < needs:
            shown.pop(name, None)
    columns = [*(Column(name, right=name in _NEEDS_WIDTH) for name in shown), Column("held by, and why", folds=True)]
    rows = [[*(cell(gpu) for cell in shown.values()), _story(gpu, status)] for gpu in status.gpus]
    count = len(status.gpus)
    simulated = f"{count} simulated GPU{'' if count == 1 else 's'}"
    what = printable(f"{status.host}: {simulated if status.simulated else _models(status)}; {_summary(shown_now)}")
    return [screen.styled(Styled(what, "bold yellow" if status.simulated else "bold")), *screen.table(columns, rows)]


def _summary(shown: Shown) -> str:
    """Return how many GPUs are available, first to this user, whom CUDA_VISIBLE_DEVICES may leave fewer."""
    if shown.visible_devices is None:
        return shown.status.in_words
    allowed = shortened(shown.visible_devices, _LONGEST_LIST) or "''"
    to_you = f"{shown.to_you or 'none'} available to you (CUDA_VISIBLE_DEVICES={allowed})"
    return f"{to_you}, {shown.status.summed_up('available in all')}"


def _models(status: Status) -> str:
    counts: dict[str, int] = {}
    for gpu in status.gpus:
        name = "unknown" if isinstance(gpu.name, Unknown) else gpu.name
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def _memory(gpu: GpuStatus) -> str:
    memory = gpu.memory
    if isinstance(memory, Unknown):
        return _NOT_KNOWN
    return f"{bytes_for_people(memory.used_bytes)} / {bytes_for_people(memory.total_bytes)}"


_COLUMNS: dict[str, Callable[[GpuStatus], Cell]] = {
    "GPU": lambda gpu: gpu.label,
    "activity": lambda gpu: Styled(gpu.activity.value, LOOKS[gpu.activity].terminal),
    "for": lambda gpu: "" if gpu.for_s is None else duration_for_people(gpu.for_s),
    "util": lambda gpu: _NOT_KNOWN if isinstance(gpu.utilization, Unknown) else f"{gpu.utilization:.0%}",
    "memory": _memory,
    "power": lambda gpu: _NOT_KNOWN if isinstance(gpu.power_w, Unknown) else f"{gpu.power_w:.0f} W",
    "temp": lambda gpu: _NOT_KNOWN if isinstance(gpu.temperature_c, Unknown) else f"{gpu.temperature_c} °C",
}
_NEEDS_WIDTH = {"temp": 90, "power": 80, "memory": 70, "util": 50}


def _story(gpu: GpuStatus, status: Status) -> str:
    lines: list[str] = []
    people = people_on(gpu)
    lines.extend(_holder(holder) for holder in people[:_HOLDERS_SHOWN])
    if len(people) > _HOLDERS_SHOWN:
        lines.append(f"and {len(people) - _HOLDERS_SHOWN} more")
    if isinstance(gpu.claim, Unknown):
        lines.append(f"who has claimed it is {gpu.claim}")
    elif gpu.claim is not None and people:  # otherwise the claim is the reason
        lines.append(str(gpu.claim))
    if gpu.filler is not None:
        lines.append(f"a filler, which yields: {shortened(gpu.filler.command or 'unnamed', 80)}")
    if gpu.waiting:
        lines.append(f"{gpu.waiting} waiting for it")
    if gpu.activity not in AVAILABLE:
        lines.append(gpu.because)
    lines.extend(job.in_words for job in status.parked if gpu.uuid in job.uuids)
    return "\n".join(printable(line) for line in lines)  # other users wrote some of that


def _holder(holder: Holder) -> str:
    memory = "" if isinstance(holder.memory_bytes, Unknown) else f" {bytes_for_people(holder.memory_bytes)}"
    who = "somebody" if isinstance(holder.user, Unknown) else holder.user
    command = "" if isinstance(holder.command, Unknown) else f" {shortened(holder.command, 80)}"
    owner = "" if isinstance(holder.owner, Unknown) or not holder.owner.label else f" [{holder.owner.label}]"
    return f"{who} {holder.pid}{memory}{command}{owner}"
