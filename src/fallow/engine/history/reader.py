"""Read history while another process may write it: the file is opened read-only, and each answer is of one moment."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import RLock
from typing import Any, NamedTuple

from fallow.actuators.files.own_folder import NAME_ANOTHER_STATE
from fallow.core.activity import Activity
from fallow.core.errors import FallowError, NotPermitted
from fallow.core.interval import Card, Interval, Party
from fallow.core.units import is_number
from fallow.engine.history import samples as sampled
from fallow.engine.history.collector import QUARTER_MS, parties_of_text
from fallow.engine.history.samples import Sample
from fallow.engine.history.sqlite_file import open_read_only, version_of
from fallow.engine.history.store import FILE_NAME, SCHEMA

# An interval lies in one quarter of an hour, so that those which reach into a span begin at most a quarter before it.
_REACHING_IN = "card = ? AND begin >= ? AND begin < ? AND begin + span > ?"
_BETWEEN = "begin >= :quarter AND begin < :until AND begin + span > :since"
# Of an interval that the span cuts, the part inside: exact where all of it was witnessed, else in proportion.
_INSIDE = (
    "CASE WHEN begin >= :since AND begin + span <= :until THEN {0} "
    "ELSE {0} * (min(begin + span, :until) - max(begin, :since)) / span END"
)
_KINDS = {activity.value: activity for activity in Activity}


class Spent(NamedTuple):
    """For how long one GPU did one thing, held by the same parties: some time between two moments."""

    begin_ms: int
    end_ms: int
    witnessed_ms: int
    activity: Activity
    parties: tuple[Party, ...]


def _leave() -> None:
    """Do nothing: the owner of the connection closes it."""


class HistoryReader:
    """Reads history. Any thread may call its methods."""

    def __init__(
        self,
        database: Callable[[], sqlite3.Connection],
        lock: RLock,
        close: Callable[[], None] = _leave,
    ) -> None:
        """`database` is called for each question: a shared one may have been replaced."""
        self._database = database
        self._lock = lock
        self._crews: dict[int, tuple[Party, ...]] = {}
        self.close = close
        """Close the connection."""

    def cards(self) -> dict[str, Card]:
        """Return every GPU that was ever seen and is still kept, by UUID, in the order of their indices."""
        rows = self._ask("SELECT uuid, label, name, host, simulated FROM card ORDER BY id")
        cards = [
            Card(str(uuid), str(label), str(name), str(host), bool(simulated))
            for uuid, label, name, host, simulated in rows
        ]
        cards.sort(
            key=lambda card: (card.host, [int(part) if is_number(part) else 0 for part in card.label.split(":")])
        )
        return {card.uuid: card for card in cards}

    def tallies(self, edges_ms: Sequence[int]) -> list[Interval]:
        """Return what was witnessed between each two edges, summed up by GPU, activity and holders.

        The hours of any report come from these: a few rows for each day, however long history is.
        """
        summed = [f"coalesce(sum({_INSIDE.format(name)}), 0)" for name in ("witnessed", "energy", "metered")]
        question = (
            f"SELECT activity, holders, {', '.join(summed)} FROM interval LEFT JOIN crew ON crew.id = crew "  # noqa: S608  no part from outside
            f"WHERE card = :card AND {_BETWEEN} "
            "GROUP BY activity, crew"
        )
        found: list[Interval] = []
        with self._one_moment():
            for uuid, card in self._numbers().items():
                for begin_ms, end_ms in pairwise(edges_ms):
                    for activity, text, *sums in self._ask(question, {**_span(begin_ms, end_ms), "card": card}):
                        ms, energy_mj, metered_ms = sums
                        kind, parties = _KINDS[activity], parties_of_text(str(text))
                        found.append(Interval(uuid, begin_ms, end_ms, ms, kind, parties, energy_mj, metered_ms))
        return found

    def quarters(self, since_ms: int, until_ms: int) -> list[tuple[int, Activity, int]]:
        """Return how long all GPUs together did what in each quarter of an hour: its beginning, what, how long."""
        question = (
            f"SELECT begin / {QUARTER_MS}, activity, sum({_INSIDE.format('witnessed')}) FROM interval "  # noqa: S608  the same
            f"WHERE card IN (SELECT id FROM card) AND {_BETWEEN} GROUP BY 1, 2 ORDER BY 1"
        )
        rows = self._ask(question, _span(since_ms, until_ms))
        return [(number * QUARTER_MS, _KINDS[activity], ms) for number, activity, ms in rows if ms]

    def strip(self, uuid: str, since_ms: int, until_ms: int) -> list[Interval]:
        """Return what one GPU did and who held it, in order: equal neighbours are joined, gaps are left out.

        What is too old to be kept in order is put one after the other inside its quarter of an hour.
        """
        question = (
            f"SELECT begin, witnessed, activity, crew FROM interval WHERE {_REACHING_IN} "  # noqa: S608  the same
            "ORDER BY begin, turn"
        )
        strip: list[Interval] = []
        with self._one_moment():
            rows = self._ask(question, self._reach(uuid, since_ms, until_ms))
            for begin_ms, end_ms, activity, crew in _laid_out(rows, since_ms, until_ms):
                ms, parties = end_ms - begin_ms, self._parties(crew)
                _join(strip, Interval(uuid, begin_ms, end_ms, ms, _KINDS[activity], parties))
        return strip

    def colours(self, uuid: str, since_ms: int, until_ms: int, finest_ms: int) -> list[tuple[int, int, Activity]]:
        """Return what one GPU did, for a picture: from when, until when, what; short intervals are merged."""
        question = (
            f"SELECT min(begin), sum(witnessed), activity, 0 FROM interval WHERE {_REACHING_IN} "  # noqa: S608  the same
            "GROUP BY span >= ?, iif(span >= ?, begin, begin / ?), activity ORDER BY 1"
        )
        with self._one_moment():
            rows = self._ask(question, (*self._reach(uuid, since_ms, until_ms), *[max(1, finest_ms)] * 3))
        joined: list[tuple[int, int, Activity]] = []
        for begin_ms, end_ms, word, _ in _laid_out(rows, since_ms, until_ms):
            activity = _KINDS[word]
            if joined and joined[-1][1:] == (begin_ms, activity):
                joined[-1] = (joined[-1][0], end_ms, activity)
            else:
                joined.append((begin_ms, end_ms, activity))
        return joined

    def samples(self, uuid: str, since_s: int, until_s: int, step_s: int) -> list[Sample]:
        """Return the means of one GPU's readings, in steps of some seconds; steps without any are left out."""
        with self._one_moment():
            rows = self._ask(sampled.question(step_s), (self._numbers().get(uuid), since_s, until_s))
        return sampled.samples_of(rows)

    def spent(self, uuid: str, since_ms: int, until_ms: int, step_ms: int) -> list[Spent]:
        """Return what one GPU did and who held it, for a picture: intervals shorter than a step are merged."""
        question = (
            "SELECT min(begin), max(begin + span), sum(witnessed), activity, crew FROM interval "  # noqa: S608  the same
            f"WHERE {_REACHING_IN} GROUP BY span >= ?, iif(span >= ?, begin, begin / ?), activity, crew ORDER BY 1"
        )
        with self._one_moment():
            rows = self._ask(question, (*self._reach(uuid, since_ms, until_ms), *[max(1, step_ms)] * 3))
            return [
                Spent(begin, end, witnessed, _KINDS[activity], self._parties(crew))
                for begin, end, witnessed, activity, crew in rows
                if witnessed
            ]

    def _reach(self, uuid: str, since_ms: int, until_ms: int) -> tuple[object, ...]:
        return self._numbers().get(uuid), since_ms // QUARTER_MS * QUARTER_MS, until_ms, since_ms

    def _numbers(self) -> dict[str, int]:
        return {str(uuid): int(number) for uuid, number in self._ask("SELECT uuid, id FROM card ORDER BY id")}

    def _parties(self, crew: int) -> tuple[Party, ...]:
        known = self._crews.get(crew)
        if known is None:
            rows = self._ask("SELECT holders FROM crew WHERE id = ?", (crew,))
            known = self._crews[crew] = parties_of_text(str(rows[0][0]) if rows else "?")
        return known

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """Read the same state of the file throughout the block; no other thread uses it meanwhile."""
        with self._lock:
            self._ask("BEGIN")
            self._crews.clear()
            try:
                yield
            finally:
                with suppress(FallowError):  # a broken connection has no transaction any more
                    self._ask("COMMIT")

    def _ask(self, question: str, values: tuple[object, ...] | Mapping[str, object] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._database().execute(question, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise FallowError(f"history cannot be read: {error}") from None


def open_history(folder: str) -> HistoryReader | None:
    """Open the history in this folder, from another process than the one that writes it; None if there is none."""
    path = os.path.join(folder, FILE_NAME)
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotPermitted(f"history in {folder} cannot be read: {error.strerror}", NAME_ANOTHER_STATE) from None
    database = None
    try:
        database = open_read_only(path)
        version = version_of(database)
    except sqlite3.Error as error:
        if database is not None:
            database.close()
        what = "it is a folder" if os.path.isdir(path) else str(error)
        raise FallowError(f"history in {folder} cannot be read: {what}") from None
    if version == 0:  # it exists, and nothing is written yet
        database.close()
        return None
    if version != SCHEMA.version:
        database.close()
        raise FallowError(f"history in {folder} has not the tables of this fallow")
    return HistoryReader(lambda: database, RLock(), database.close)


def _span(since_ms: int, until_ms: int) -> dict[str, object]:
    return {"since": since_ms, "until": until_ms, "quarter": since_ms // QUARTER_MS * QUARTER_MS}


def _laid_out(rows: Iterable[tuple[Any, ...]], since_ms: int, until_ms: int) -> Iterator[tuple[int, int, str, int]]:
    """Yield each interval at its beginning, or after the one before it, cut to the span."""
    laid_ms = 0
    for begin, witnessed, activity, crew in rows:
        begin_ms = max(begin, laid_ms)
        laid_ms = begin_ms + witnessed
        if laid_ms > since_ms and begin_ms < until_ms and witnessed:
            yield max(begin_ms, since_ms), min(laid_ms, until_ms), activity, crew


def _join(strip: list[Interval], following: Interval) -> None:
    if strip:
        last = strip[-1]
        if (last.end_ms, last.activity, last.parties) == (following.begin_ms, following.activity, following.parties):
            ms = last.witnessed_ms + following.witnessed_ms
            strip[-1] = Interval(last.uuid, last.begin_ms, following.end_ms, ms, last.activity, last.parties)
            return
    strip.append(following)
