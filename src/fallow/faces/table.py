"""The table that people look at."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fallow.core.activity import AVAILABLE, Activity
from fallow.core.gpu import Holder
from fallow.core.seen import SeenGpu, Sight, people_on
from fallow.core.units import bytes_for_people, duration_for_people, is_number, printable, shortened
from fallow.core.unknown import Unknown

_COLOUR = {
    Activity.FREE: "green",
    Activity.FILLED: "cyan",
    Activity.BUSY: "blue",
    Activity.FALLOW: "yellow",
    Activity.STUCK: "red",
    Activity.UNKNOWN: "magenta",
}
_WIDE_ENOUGH = 200  # where nobody's terminal sets a width, nothing is cut short
_HOLDERS_SHOWN = 4
_NOT_KNOWN = "?"


def show(sight: Sight) -> None:
    """Print it once."""
    console = _console()
    console.print(_table(sight, console.width))


def show_live(sights: Iterator[Sight]) -> None:
    """Keep one table up to date, until Ctrl-C; one below the other where nothing can be overwritten."""
    console = _console()
    if console.is_dumb_terminal:
        for sight in sights:
            console.print(_table(sight, console.width))
        return
    with Live(console=console, auto_refresh=False) as live:
        for sight in sights:
            live.update(_table(sight, console.width), refresh=True)


def show_rows(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a plain table: the first column to the left, the others to the right, the last as wide as it needs."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if 0 < at < len(columns) - 1 else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    _console().print(table if title is None else Group(Text(title, style="bold yellow"), table))


def show_hours(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], words: int, file: TextIO | None
) -> None:
    """Print a report: the first so many columns are words, the others numbers, under the colour of their activity."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, head in enumerate(heads):
        style = _COLOUR[Activity(head)] if head in list(Activity) else None
        table.add_column(
            Text(head, style=style or ""), justify="left" if number < words else "right", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    _console(file).print(Text(title, style="bold"), table, sep="\n")


class _Console(Console):
    """A console that leaves it to us what to do when its reader has gone."""

    def on_broken_pipe(self) -> None:
        """As every other output of ours does."""
        raise BrokenPipeError


def _console(file: TextIO | None = None) -> Console:
    given = os.environ.get("COLUMNS", "")
    width = int(given) if is_number(given) and int(given) > 0 else None
    if width is None and (file is not None or not sys.stdout.isatty()):
        width = _WIDE_ENOUGH
    return _Console(highlight=False, width=width, file=file)


def _table(sight: Sight, width: int) -> Group:
    """What does not fit goes, least needed first: the story of who and why must stay readable."""
    columns = dict(_COLUMNS)
    if all(gpu.for_s is None for gpu in sight.gpus):
        del columns["for"]
    for name, needs in _NEEDS_WIDTH.items():
        if width < needs:
            columns.pop(name, None)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in _NEEDS_WIDTH else "left", no_wrap=True)
    table.add_column("held by, and why", overflow="fold")
    for gpu in sight.gpus:
        table.add_row(*(cell(gpu) for cell in columns.values()), Text(_story(gpu)))
    count = len(sight.gpus)
    simulated = f"{count} simulated GPU{'' if count == 1 else 's'}"
    what = printable(f"{sight.host}: {simulated if sight.simulated else _models(sight)}; {sight.in_words}")
    return Group(Text(what, style="bold yellow" if sight.simulated else "bold"), table)


def _models(sight: Sight) -> str:
    counts: dict[str, int] = {}
    for gpu in sight.gpus:
        name = "unknown" if isinstance(gpu.name, Unknown) else gpu.name
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def _memory(gpu: SeenGpu) -> str:
    memory = gpu.memory
    if isinstance(memory, Unknown):
        return _NOT_KNOWN
    return f"{bytes_for_people(memory.used_bytes)} / {bytes_for_people(memory.total_bytes)}"


_COLUMNS: dict[str, Callable[[SeenGpu], Text | str]] = {
    "GPU": lambda gpu: gpu.label,
    "activity": lambda gpu: Text(gpu.activity.value, style=_COLOUR[gpu.activity]),
    "for": lambda gpu: "" if gpu.for_s is None else duration_for_people(gpu.for_s),
    "util": lambda gpu: _NOT_KNOWN if isinstance(gpu.utilization, Unknown) else f"{gpu.utilization:.0%}",
    "memory": _memory,
    "power": lambda gpu: _NOT_KNOWN if isinstance(gpu.power_w, Unknown) else f"{gpu.power_w:.0f} W",
    "temp": lambda gpu: _NOT_KNOWN if isinstance(gpu.temperature_c, Unknown) else f"{gpu.temperature_c} °C",
}
_NEEDS_WIDTH = {"temp": 90, "power": 80, "memory": 70, "util": 50}


def _story(gpu: SeenGpu) -> str:
    lines: list[str] = []
    people = people_on(gpu)
    lines.extend(_holder(holder) for holder in people[:_HOLDERS_SHOWN])
    if len(people) > _HOLDERS_SHOWN:
        lines.append(f"and {len(people) - _HOLDERS_SHOWN} more")
    if isinstance(gpu.claim, Unknown):
        lines.append(f"who has claimed it is {gpu.claim}")
    elif gpu.claim is not None and people:  # else it is the reason itself
        lines.append(str(gpu.claim))
    if gpu.filler is not None:
        lines.append(f"a filler, which yields: {shortened(gpu.filler.command or 'unnamed', 80)}")
    if gpu.waiting:
        lines.append(f"{gpu.waiting} waiting in line for it")
    if gpu.activity not in AVAILABLE:
        lines.append(gpu.because)
    return "\n".join(printable(line) for line in lines)  # others wrote some of that


def _holder(holder: Holder) -> str:
    memory = "" if isinstance(holder.memory_bytes, Unknown) else f" {bytes_for_people(holder.memory_bytes)}"
    who = "somebody" if isinstance(holder.user, Unknown) else holder.user
    command = "" if isinstance(holder.command, Unknown) else f" {shortened(holder.command, 80)}"
    job = f" [Slurm job {holder.slurm_job}]" if isinstance(holder.slurm_job, str) else ""
    pod = f" [pod {holder.kubernetes_pod}]" if isinstance(holder.kubernetes_pod, str) else ""
    container = f" [container {holder.container[:12]}]" if isinstance(holder.container, str) and not pod else ""
    return f"{who} {holder.pid}{memory}{command}{job}{pod}{container}"
