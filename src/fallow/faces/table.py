"""The table that people look at."""

import os
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fallow.core.activity import Activity
from fallow.core.gpu import Holder
from fallow.core.seen import SeenGpu, Sight
from fallow.core.units import bytes_for_people, duration_for_people, shortened
from fallow.core.unknown import Unknown

_COLOUR = {
    Activity.FREE: "green",
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
    _console().print(_table(sight))


def show_live(sights: Iterator[Sight]) -> None:
    """Keep one table up to date, until Ctrl-C."""
    with Live(console=_console(), auto_refresh=False) as live:
        for sight in sights:
            live.update(_table(sight), refresh=True)


def _console() -> Console:
    on_terminal = sys.stdout.isatty()
    width = None if on_terminal or "COLUMNS" in os.environ else _WIDE_ENOUGH
    return Console(highlight=False, width=width)


def _table(sight: Sight) -> Group:
    table = Table(box=None, pad_edge=False, header_style="bold")
    watched = any(gpu.for_s is not None for gpu in sight.gpus)
    for heading in ("GPU", "activity", *(["for"] if watched else [])):
        table.add_column(heading, no_wrap=True)
    for heading in ("util", "memory", "power", "temp"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("held by, and why", overflow="fold")
    for gpu in sight.gpus:
        table.add_row(*_row(gpu, watched))
    what = f"{sight.host}: {len(sight.gpus)} simulated GPUs" if sight.simulated else f"{sight.host}: {_models(sight)}"
    return Group(Text(what, style="bold yellow" if sight.simulated else "bold"), table)


def _models(sight: Sight) -> str:
    counts: dict[str, int] = {}
    for gpu in sight.gpus:
        name = "unknown" if isinstance(gpu.name, Unknown) else gpu.name
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def _row(gpu: SeenGpu, watched: bool) -> Iterable[Text | str]:
    memory = gpu.memory
    used = (
        _NOT_KNOWN
        if isinstance(memory, Unknown)
        else f"{bytes_for_people(memory.used_bytes)} / {bytes_for_people(memory.total_bytes)}"
    )
    return (
        gpu.label,
        Text(gpu.activity.value, style=_COLOUR[gpu.activity]),
        *(["" if gpu.for_s is None else duration_for_people(gpu.for_s)] if watched else []),
        _NOT_KNOWN if isinstance(gpu.utilization, Unknown) else f"{gpu.utilization:.0%}",
        used,
        _NOT_KNOWN if isinstance(gpu.power_w, Unknown) else f"{gpu.power_w:.0f} W",
        _NOT_KNOWN if isinstance(gpu.temperature_c, Unknown) else f"{gpu.temperature_c} °C",
        Text(_story(gpu)),
    )


def _story(gpu: SeenGpu) -> str:
    lines: list[str] = []
    if not isinstance(gpu.holders, Unknown):
        lines.extend(_holder(holder) for holder in gpu.holders[:_HOLDERS_SHOWN])
        if len(gpu.holders) > _HOLDERS_SHOWN:
            lines.append(f"and {len(gpu.holders) - _HOLDERS_SHOWN} more")
    if gpu.claim is not None and not isinstance(gpu.claim, Unknown):
        lines.append(str(gpu.claim))
    if gpu.activity is not Activity.FREE:
        lines.append(gpu.because)
    return "\n".join(lines)


def _holder(holder: Holder) -> str:
    memory = "" if isinstance(holder.memory_bytes, Unknown) else f" {bytes_for_people(holder.memory_bytes)}"
    who = "somebody" if isinstance(holder.user, Unknown) else holder.user
    command = "" if isinstance(holder.command, Unknown) else f" {shortened(holder.command, 80)}"
    job = f" [Slurm job {holder.slurm_job}]" if isinstance(holder.slurm_job, str) else ""
    pod = f" [pod {holder.kubernetes_pod}]" if isinstance(holder.kubernetes_pod, str) else ""
    container = f" [container {holder.container[:12]}]" if isinstance(holder.container, str) and not pod else ""
    return f"{who} {holder.pid}{memory}{command}{job}{pod}{container}"
