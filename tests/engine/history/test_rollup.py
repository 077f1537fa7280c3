"""The sums that long plots are read from: equal to the intervals whatever happens to those, and never in the way."""

import pathlib
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import RLock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.activity import UNUSED, Activity
from fallow.core.interval import NOBODY, Card, Party
from fallow.core.money import Prices
from fallow.engine.history.collector import QUARTER_MS, Batch, Piece, parties_of_text, text_of_parties
from fallow.engine.history.marks import mark
from fallow.engine.history.reader import HistoryReader
from fallow.engine.history.retention import age
from fallow.engine.history.rollup import MARK, STEPS_MS, roll_on
from fallow.engine.history.series import SPANS, PlotSpan, Step, steps_of
from fallow.engine.history.store import FILE_NAME, LastWritten, Store
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import gpu_status, holder, opened_store, status
from tests.length import examples
from tests.places import LIMIT_S

START_MS = 1_790_006_400_000  # a step of four hours begins here
HOUR_MS = 3_600_000
CARDS = {uuid: Card(uuid, str(index), "H100", "box") for index, uuid in enumerate(("GPU-a", "GPU-b", "GPU-c"))}
CREWS = tuple(
    text_of_parties(parties) for parties in ((Party("ada", "x"),), (Party("ada", "x"), Party("bob", "y")), ())
)
PRICES = Prices(3.0, (("GPU-c", 1.0),), "USD")

pieces = st.tuples(
    st.sampled_from(list(CARDS)), st.integers(1, 899_999), st.sampled_from(list(Activity)), st.sampled_from(CREWS)
)
acts = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(-30, 200), st.lists(pieces, min_size=1, max_size=4)),
        st.tuples(st.just("grow"), st.integers(1, 5000), st.just([])),
        st.tuples(st.just("age"), st.integers(1, 9), st.just([])),
        st.tuples(st.just("roll"), st.just(0), st.just([])),
    ),
    min_size=3,
    max_size=14,
)


@contextmanager
def a_store() -> Iterator[tuple[Store, LastWritten]]:
    with tempfile.TemporaryDirectory() as folder:
        last: LastWritten = {}
        with opened_store(pathlib.Path(folder), last) as store:
            store.database.execute("PRAGMA synchronous = OFF")
            yield store, last


def summed(database: sqlite3.Connection) -> list[tuple[object, ...]]:
    """What the sums must be, by the rows themselves."""
    found: list[tuple[object, ...]] = []
    for step in STEPS_MS:
        found += database.execute(
            f"SELECT card, {step}, begin / {step} * {step}, activity, crew, sum(witnessed) FROM interval "
            "WHERE begin < ? GROUP BY 1, 3, activity, crew HAVING sum(witnessed) > 0",
            (mark(database, MARK),),
        ).fetchall()
    return sorted(found, key=repr)


def drawn_by_hand(database: sqlite3.Connection, until_ms: int, span: PlotSpan) -> list[tuple[object, ...]]:
    """Of each step: GPUs, time by activity, cost and users, counted row by row."""
    step_ms = span.step_s * 1000
    first_ms = until_ms // step_ms * step_ms - span.seconds * 1000 + step_ms
    cost: dict[int, float] = {}
    spent: dict[int, dict[Activity, int]] = {}
    gpus: dict[int, dict[str, int]] = {}
    users: dict[int, set[str]] = {}
    question = (
        "SELECT uuid, begin, witnessed, activity, holders FROM interval "
        "JOIN crew ON crew.id = crew JOIN card ON card.id = card WHERE begin >= ? AND begin < ?"
    )
    for uuid, begin, ms, word, text in database.execute(question, (first_ms, until_ms)):
        at, activity = (begin - first_ms) // step_ms, Activity(word)
        spent.setdefault(at, {}).setdefault(activity, 0)
        spent[at][activity] += ms
        gpus.setdefault(at, {}).setdefault(uuid, 0)
        gpus[at][uuid] += ms
        users.setdefault(at, set()).update(party.user for party in parties_of_text(text) if party != NOBODY)
        cost[at] = cost.get(at, 0.0) + (
            ms / HOUR_MS * (1.0 if uuid == "GPU-c" else 3.0) if activity in UNUSED else 0.0
        )
    return [
        (
            len(gpus.get(at, {})),
            spent.get(at, {}),
            cost.get(at),
            users.get(at, set()),
            max(gpus.get(at, {0: 0}).values()),
        )
        for at in range(span.seconds // span.step_s)
    ]


def told(step: Step) -> tuple[object, ...]:
    cost = None if step.cost is None else pytest.approx(step.cost)
    return step.gpus, step.spent_ms, cost, set(step.users), step.watched_ms


@settings(max_examples=examples(40), deadline=None)
@given(acts)
def test_whatever_is_written_grows_gets_old_or_is_deleted_the_sums_are_those_of_the_rows(
    history: list[tuple[str, int, list[tuple[str, int, Activity, str]]]],
) -> None:
    with a_store() as (store, last):
        now_ms, number = START_MS, 0
        for what, amount, rows in history:
            if what == "write":  # a clock that is set back writes into what is summed up already
                now_ms = max(START_MS, now_ms + amount * QUARTER_MS // 4)
                written = []
                for uuid, ms, activity, crew in rows:
                    number += 1
                    begin_ms = now_ms // QUARTER_MS * QUARTER_MS
                    written.append(Piece(number, uuid, begin_ms, begin_ms + ms, activity, crew))
                store.write(Batch(now_ms, dict(CARDS), written, {}))
            elif what == "grow":
                store.database.execute("UPDATE interval SET witnessed = min(span, witnessed + ?)", (amount,))
            elif what == "age":
                age(store, now_ms + amount * QUARTER_MS, 12 * HOUR_MS, most_exact=3)
                last.clear()
            else:
                roll_on(store.database, now_ms)
            assert sorted(store.database.execute("SELECT * FROM rollup").fetchall(), key=repr) == summed(
                store.database
            )
        past = HistoryReader(lambda: store.database, RLock())
        for span in (SPANS["7d"], SPANS["30d"]):
            steps = steps_of(past, CARDS, now_ms, span, PRICES)
            assert drawn_by_hand(store.database, now_ms, span) == [told(step) for step in steps]


def recorded(folder: pathlib.Path, hours: range, told: list[str]) -> None:
    history = HistoryWriter(str(folder), told.append)
    gpus = [gpu_status(index, Activity.IDLE, holder()) for index in range(2)]
    for hour in hours:
        for second in (0, 3, 6):
            history.record(status(START_MS / 1000 + 3600 * hour + second, *gpus))
        assert history.settle(LIMIT_S)
    history.close()


def test_a_daemon_sums_up_what_is_over_and_leaves_what_still_grows(tmp_path: pathlib.Path) -> None:
    sentences: list[str] = []
    recorded(tmp_path, range(10), sentences)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        assert mark(database, MARK) == START_MS + 8 * HOUR_MS
        assert sorted(database.execute("SELECT * FROM rollup").fetchall(), key=repr) == summed(database) != []
    assert sentences == []
