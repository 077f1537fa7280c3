"""Make history coarser as it ages, so that 90 days of it stay small.

    samples      every 30 s for two hours, then every 5 minutes for two days, then every hour (see samples.py)
    intervals    as they were for a day, or the last 50,000 of them where they are more; then, of each GPU and
                 quarter of an hour, one for each activity and set of parties, with the time witnessed of it
    everything   deleted after the days to keep

No time is lost or added by this: the hours of each GPU and each day are the same before and after, and so are the
shares of users, to a millisecond, and the energy. What is given up is the order inside a quarter of an hour,
and the names of jobs beyond the 50 with the most time on a GPU in a quarter of an hour.
"""

from collections.abc import Iterable
from typing import NamedTuple

from fallow.core.interval import Party, without_jobs
from fallow.engine.history import samples
from fallow.engine.history.collector import QUARTER_MS, parties_of_text, text_of_parties
from fallow.engine.history.marks import mark, set_mark
from fallow.engine.history.sqlite_file import transaction
from fallow.engine.history.store import INSERT, Store

DAY_S = 86_400
HOUR_MS = 3_600_000
_MOST_EXACT = 50_000
_QUARTERS_AT_ONCE = 16
_MOST_CREWS = 50
_COUNT_EXACT = "SELECT count(*) FROM interval WHERE begin >= ?"


def age(store: Store, now_ms: int, keep_ms: int, most_exact: int = _MOST_EXACT) -> None:
    """Make old rows coarser, and delete what is too old. In steps, each in its own transaction."""
    cards = [int(number) for (number,) in store.database.execute("SELECT id FROM card").fetchall()]
    for card in cards:
        with transaction(store.database):
            samples.coarsen(store.database, card, now_ms // 1000)
    _coarsen_intervals(store, cards, now_ms, most_exact)
    _clear(store, cards, now_ms - keep_ms)
    if not 0 <= now_ms - mark(store.database, "crews_cleared") < DAY_S * 1000:
        _clear_crews(store, now_ms)


def _coarsen_intervals(store: Store, cards: list[int], now_ms: int, most_exact: int) -> None:
    done_ms = mark(store.database, "coarse_until")
    if done_ms > now_ms:  # by a clock that was ahead then; to merge again what is merged changes nothing
        done_ms = 0
    at_ms = _next_quarter_ms(store, cards, done_ms, now_ms)
    exact = int(store.database.execute(_COUNT_EXACT, (at_ms,)).fetchone()[0])
    while at_ms < now_ms - QUARTER_MS and (at_ms < now_ms - DAY_S * 1000 or exact > most_exact):
        until_ms = min(at_ms + _QUARTERS_AT_ONCE * QUARTER_MS, (now_ms - QUARTER_MS) // QUARTER_MS * QUARTER_MS)
        if exact <= most_exact:
            until_ms = min(until_ms, (now_ms - DAY_S * 1000) // QUARTER_MS * QUARTER_MS)
        if until_ms <= at_ms:
            return
        with transaction(store.database):
            for card in cards:
                exact -= _merge_span(store, card, at_ms, until_ms)
            set_mark(store.database, "coarse_until", until_ms)
        at_ms = _next_quarter_ms(store, cards, until_ms, now_ms)


def _next_quarter_ms(store: Store, cards: Iterable[int], at_ms: int, now_ms: int) -> int:
    """Return the next quarter of an hour with rows, from this one on; now if there is none."""
    question = "SELECT min(begin) FROM interval WHERE card = ? AND begin >= ?"
    found = [store.database.execute(question, (card, at_ms)).fetchone()[0] for card in cards]
    return min((int(begin) // QUARTER_MS * QUARTER_MS for begin in found if begin is not None), default=now_ms)


class _Row(NamedTuple):
    """A stored interval, with its holders."""

    begin: int
    span: int
    witnessed: int
    activity: str
    parties: tuple[Party, ...]
    energy: int
    metered: int


def _merge_span(store: Store, card: int, begin_ms: int, until_ms: int) -> int:
    """Merge the intervals of these quarters; return how many there were."""
    found = store.database.execute(
        "SELECT begin, span, witnessed, activity, holders, energy, metered "
        "FROM interval LEFT JOIN crew ON crew.id = crew "
        "WHERE card = ? AND begin >= ? AND begin < ? ORDER BY begin, turn",
        (card, begin_ms, until_ms),
    ).fetchall()
    if not found:
        return 0
    quarters: dict[int, list[_Row]] = {}
    for begin, span, witnessed, activity, text, energy, metered in found:
        row = _Row(begin, span, witnessed, activity, parties_of_text(str(text)), energy, metered)
        quarters.setdefault(begin // QUARTER_MS, []).append(row)
    store.database.execute(
        "DELETE FROM interval WHERE card = ? AND begin >= ? AND begin < ?", (card, begin_ms, until_ms)
    )
    for rows in quarters.values():
        turns: dict[int, int] = {}
        for row in _merged(rows):
            turn = turns[row.begin] = turns.get(row.begin, -1) + 1
            crew = store.crew(text_of_parties(row.parties))
            values = (card, row.begin, turn, row.span, row.witnessed, row.activity, crew, row.energy, row.metered)
            store.database.execute(INSERT, values)
    return len(found)


def _merged(rows: list[_Row]) -> list[_Row]:
    """Return one row for each activity and set of parties of a quarter."""
    by_crew: dict[tuple[Party, ...], int] = {}
    for row in rows:
        by_crew[row.parties] = by_crew.get(row.parties, 0) + row.witnessed
    by_time = sorted(by_crew, key=lambda parties: -by_crew[parties])
    told = {parties: without_jobs(parties) for parties in by_time[_MOST_CREWS:]}
    merged: dict[tuple[str, tuple[Party, ...]], _Row] = {}
    for row in rows:
        parties = told.get(row.parties, row.parties)
        key = (row.activity, parties)
        first = merged.get(key)
        if first is None:
            merged[key] = row._replace(parties=parties)
            continue
        begin, end = min(first.begin, row.begin), max(first.begin + first.span, row.begin + row.span)
        merged[key] = _Row(
            *(begin, end - begin, first.witnessed + row.witnessed, row.activity, parties),
            *(first.energy + row.energy, first.metered + row.metered),
        )
    return sorted(merged.values(), key=lambda row: row.begin)


def _clear(store: Store, cards: Iterable[int], before_ms: int) -> None:
    with transaction(store.database):
        for card in cards:
            store.database.execute("DELETE FROM interval WHERE card = ? AND begin < ?", (card, before_ms))
            samples.clear(store.database, card, before_ms // 1000)


def _clear_crews(store: Store, now_ms: int) -> None:
    """Delete stored sets of holders that no interval refers to."""
    with transaction(store.database):
        store.database.execute("DELETE FROM crew WHERE id NOT IN (SELECT crew FROM interval)")
        set_mark(store.database, "crews_cleared", now_ms)
    store.forget()
