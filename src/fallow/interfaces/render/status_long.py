"""Print `fallow status --long`: of each GPU all its holders, who has claimed it, and why it is judged so."""

from collections.abc import Callable, Iterator, Sequence

from fallow.core.activity import AVAILABLE
from fallow.core.gpu import Holder
from fallow.core.gpu_status import NO_OUTLOOK, GpuStatus, Shown, people_on
from fallow.core.units import bytes_for_people, duration_for_people, printable, shortened
from fallow.core.unknown import Unknown
from fallow.interfaces.render.colours import LOOKS
from fallow.interfaces.render.grid import Cell, Column, Screen, Styled
from fallow.interfaces.render.status_lines import first_line, frame

_HOLDERS_SHOWN = 4
_NOT_KNOWN = "?"


def show(parts: Sequence[Shown | str]) -> None:
    """Print machines, and sentences about others, once."""
    screen = Screen()
    screen.write(frame(screen, parts, _lines))


def show_live(looks: Iterator[Sequence[Shown | str]]) -> None:
    """Keep them up to date until Ctrl-C; print one after the other where nothing can be overwritten."""
    screen = Screen()
    screen.redraw(frame(screen, parts, _lines) for parts in looks)


def _lines(screen: Screen, shown_now: Shown) -> list[str]:
    """Return the lines of the table. Columns that do not fit are left out, so that the reasons stay readable."""
    width, gpus = screen.width, shown_now.lines
    below = [] if shown_now.remark is None else [printable(shown_now.remark)]
    if not gpus:
        return [first_line(screen, shown_now), *below]
    shown = dict(_COLUMNS)
    if all(gpu.for_s is None for gpu in gpus):
        del shown["for"]
    if len({gpu.name for gpu in shown_now.status.gpus}) == 1:
        del shown["name"]
    for name in ("power", "temp"):  # where no GPU tells it, the last column needs the room
        if all(shown[name](gpu) == _NOT_KNOWN for gpu in gpus):
            del shown[name]
    for name, needs in _NEEDS_WIDTH.items():
        if width < needs:
            shown.pop(name, None)
    columns = [*(Column(name, right=name in _RIGHT) for name in shown), Column("held by, and why", folds=True)]
    rows = [[*(cell(gpu) for cell in shown.values()), _story(gpu, shown_now)] for gpu in gpus]
    return [first_line(screen, shown_now), *screen.table(columns, rows), *below]


def _memory(gpu: GpuStatus) -> str:
    memory = gpu.memory
    if isinstance(memory, Unknown):
        return _NOT_KNOWN
    return f"{bytes_for_people(memory.used_bytes)} / {bytes_for_people(memory.total_bytes)}"


_COLUMNS: dict[str, Callable[[GpuStatus], Cell]] = {
    "GPU": lambda gpu: gpu.label,
    "name": lambda gpu: _NOT_KNOWN if isinstance(gpu.name, Unknown) else printable(gpu.name),
    "activity": lambda gpu: Styled(gpu.activity.value, LOOKS[gpu.activity].terminal),
    "for": lambda gpu: "" if gpu.for_s is None else duration_for_people(gpu.for_s),
    "util": lambda gpu: _NOT_KNOWN if isinstance(gpu.utilization, Unknown) else f"{gpu.utilization:.0%}",
    "memory": _memory,
    "power": lambda gpu: _NOT_KNOWN if isinstance(gpu.power_w, Unknown) else f"{gpu.power_w:.0f} W",
    "temp": lambda gpu: _NOT_KNOWN if isinstance(gpu.temperature_c, Unknown) else f"{gpu.temperature_c} °C",
}
_RIGHT = ("util", "memory", "power", "temp")
_NEEDS_WIDTH = {"name": 120, "temp": 90, "power": 80, "memory": 70, "util": 50}


def _story(gpu: GpuStatus, shown: Shown) -> str:
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
    outlook = shown.outlooks.get(gpu.label, NO_OUTLOOK)
    if outlook.stops_in_s is not None:
        warns = outlook.warns_in_s
        warned = "" if warns is None else f", and warns it in {duration_for_people(round(warns))},"
        told = duration_for_people(round(outlook.stops_in_s))
        lines.append(f"a rule stops its job in {told}{warned} unless it works")
    if outlook.killed_in_s is not None:
        told = duration_for_people(round(outlook.killed_in_s))
        lines.append(f"its job was asked to end; what is left of it is killed in {told}")
    if outlook.kept_back is not None:
        lines.append(f"a stop of its job is due, but held back: {outlook.kept_back}")
    if outlook.left_alone is not None and outlook.protected_s is None:  # a protection stands below the table
        lines.append(f"its job is protected: {outlook.left_alone}")
    if gpu.activity not in AVAILABLE:
        lines.append(gpu.because)
    lines.extend(job.in_words for job in shown.status.parked if gpu.uuid in job.uuids)
    return "\n".join(printable(line) for line in lines)  # other users wrote some of that


def _holder(holder: Holder) -> str:
    memory = "" if isinstance(holder.memory_bytes, Unknown) else f" {bytes_for_people(holder.memory_bytes)}"
    who = "somebody" if isinstance(holder.user, Unknown) else holder.user
    command = "" if isinstance(holder.command, Unknown) else f" {shortened(holder.command, 80)}"
    owner = "" if isinstance(holder.owner, Unknown) or not holder.owner.label else f" [{holder.owner.label}]"
    return f"{who} {holder.pid}{memory}{command}{owner}"
