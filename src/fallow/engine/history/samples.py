"""Readings over time: sums and counts of what each GPU's sensors said, from which means are made for pictures.

    every 30 seconds    for two hours
    every 5 minutes     for two days
    every hour          until history is deleted

A reading that is missing is not counted, so that it changes no mean; where nothing was counted, there is no mean.
"""

import sqlite3
from collections.abc import Callable, Iterable

from fallow.core.gpu_status import GpuStatus, load_of
from fallow.core.unknown import Unknown
from fallow.core.value import value

SAMPLE_S = 30
_FINE_S = 2 * 3600
_MIDDLE_S = 2 * 86_400
COARSER = ((SAMPLE_S, 300, _FINE_S), (300, 3600, _MIDDLE_S))
"""Samples of the first length in seconds become samples of the second, after the third."""
TABLE = """
    CREATE TABLE IF NOT EXISTS sample (
        card INTEGER NOT NULL, at INTEGER NOT NULL, span INTEGER NOT NULL,
        load INTEGER NOT NULL, loads INTEGER NOT NULL, memory INTEGER NOT NULL, memories INTEGER NOT NULL,
        power INTEGER NOT NULL, powers INTEGER NOT NULL, heat INTEGER NOT NULL, heats INTEGER NOT NULL,
        PRIMARY KEY (card, at, span)) WITHOUT ROWID
"""
_ADD = """
    INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET
        load = load + excluded.load, loads = loads + excluded.loads,
        memory = memory + excluded.memory, memories = memories + excluded.memories,
        power = power + excluded.power, powers = powers + excluded.powers,
        heat = heat + excluded.heat, heats = heats + excluded.heats
"""
_NAMES = ("load", "loads", "memory", "memories", "power", "powers", "heat", "heats")
_SUMS = f"{', '.join(f'sum({name})' for name in _NAMES)} FROM sample WHERE card = ?"
_MIB = 2**20
_PER_UNIT = 1000

Sums = dict[tuple[str, int], list[int]]
"""By UUID and second: sum and count of utilization (1/1000), memory (MiB), power (W) and temperature (°C)."""


@value
class Sample:
    """The means of one GPU's readings over some seconds; None where there was no reading."""

    at_s: int
    utilization: float | None
    memory_bytes: float | None
    power_w: float | None
    temperature_c: float | None


class SampleCollector:
    """Adds up the readings that are not written yet. It drops the oldest before it grows too large."""

    def __init__(self, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._sums: Sums = {}

    def add(self, uuid: str, gpu: GpuStatus, at_s: int) -> None:
        """Add the readings of one tick."""
        key = (uuid, at_s // SAMPLE_S * SAMPLE_S)
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = [0] * 8
            if len(self._sums) > self._most_waiting:
                del self._sums[next(iter(self._sums))]
        load = load_of(gpu)
        if not isinstance(load, Unknown):
            sums[0] += round(load * _PER_UNIT)
            sums[1] += 1
        if not isinstance(gpu.memory, Unknown):
            sums[2] += gpu.memory.used_bytes // _MIB
            sums[3] += 1
        if not isinstance(gpu.power_w, Unknown):
            sums[4] += round(gpu.power_w)
            sums[5] += 1
        if not isinstance(gpu.temperature_c, Unknown):
            sums[6] += gpu.temperature_c
            sums[7] += 1

    def take(self) -> Sums:
        """Return what was added since the last call."""
        taken, self._sums = self._sums, {}
        return taken


def write(database: sqlite3.Connection, sums: Sums, card: Callable[[str], int]) -> None:
    """Add the sums to those that are stored."""
    database.executemany(_ADD, [(card(uuid), at_s, SAMPLE_S, *row) for (uuid, at_s), row in sums.items()])


def coarsen(database: sqlite3.Connection, card: int, now_s: int) -> None:
    """Make the old samples of one GPU coarser. Sums stay, and so do the means."""
    for finer, coarser, after_s in COARSER:
        which = (card, finer, (now_s - after_s) // coarser * coarser)
        rows = database.execute(
            f"SELECT card, at / {coarser:d} * {coarser:d}, {coarser:d}, {_SUMS} AND span = ? AND at < ? GROUP BY 2",
            which,
        ).fetchall()
        database.executemany(_ADD, rows)
        database.execute("DELETE FROM sample WHERE card = ? AND span = ? AND at < ?", which)


def clear(database: sqlite3.Connection, card: int, before_s: int) -> None:
    """Delete samples that are too old."""
    database.execute("DELETE FROM sample WHERE card = ? AND at < ?", (card, before_s))


def question(step_s: int) -> str:
    """Return the question for the sums of one GPU in steps of so many seconds: card, from when, until when."""
    return f"SELECT at / {step_s:d} * {step_s:d}, {_SUMS} AND at >= ? AND at < ? GROUP BY 1 ORDER BY 1"


def samples_of(rows: Iterable[tuple[int, ...]]) -> list[Sample]:
    """Return the means of the rows that `question` finds."""
    return [_sample(*row) for row in rows]


def _sample(  # as the columns are
    at: int, load: int, loads: int, memory: int, memories: int, power: int, powers: int, heat: int, heats: int
) -> Sample:
    return Sample(
        at_s=at,
        utilization=load / loads / _PER_UNIT if loads else None,
        memory_bytes=memory / memories * _MIB if memories else None,
        power_w=power / powers if powers else None,
        temperature_c=heat / heats if heats else None,
    )
