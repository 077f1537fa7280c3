"""A few bits that a disk has changed cost what they held, and nothing else: no report, no launch and no daemon."""

import pathlib
import sqlite3
from contextlib import closing

import pytest

from fallow.core.activity import Activity
from fallow.core.errors import FallowError
from fallow.core.interval import Party
from fallow.core.money import Prices
from fallow.engine.history import journal_file
from fallow.engine.history.journal import Journal
from fallow.engine.history.reader import open_history
from fallow.engine.history.series import SPANS, steps_of
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, past, status
from tests.places import LIMIT_S
from tests.reasons import said

pytestmark = pytest.mark.more

START_MS = round(START_S * 1000)


def change(file: pathlib.Path, statement: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute(statement)


def watch(folder: pathlib.Path, told: list[str], first: int = 0) -> None:
    """Ten seconds of two GPUs."""
    history = HistoryWriter(str(folder), told.append)
    for second in range(first, first + 11):
        gpus = (gpu_status(index, Activity.IDLE, holder(user=("ada", "bob")[index])) for index in range(2))
        history.record(status(START_S + second, *gpus))
        assert history.settle(LIMIT_S)
    history.close()


def test_an_activity_that_is_no_word_of_ours_is_unknown_in_reports_and_plots(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    watch(tmp_path, told)
    change(tmp_path / "history.db", "UPDATE interval SET activity = 'idl%' WHERE card = 1")
    opened = past(tmp_path)
    first, second = opened.cards()
    found = {(one.uuid, one.activity): one.witnessed_ms for one in opened.tallies([START_MS, START_MS + 60_000])}
    assert found == {(first, Activity.UNKNOWN): 10_000, (second, Activity.IDLE): 10_000}
    quarters = opened.quarters(START_MS, START_MS + 60_000)
    assert {activity: ms for _, activity, ms in quarters} == {Activity.UNKNOWN: 10_000, Activity.IDLE: 10_000}
    assert [one.activity for one in opened.strip(first, START_MS, START_MS + 60_000)] == [Activity.UNKNOWN]
    assert [one[2] for one in opened.colours(first, START_MS, START_MS + 60_000, 1000)] == [Activity.UNKNOWN]
    for span in ("24h", "7d"):
        steps = steps_of(opened, (first, second), START_MS + 60_000, SPANS[span], Prices(2.0))
        assert steps[-1].spent_ms == {Activity.IDLE: 10_000, Activity.UNKNOWN: 10_000}
    opened.close()
    assert told == []


def test_a_job_whose_name_is_no_text_any_more_costs_nobody_else_the_report(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    watch(tmp_path, told)
    change(tmp_path / "history.db", "UPDATE crew SET holders = CAST(x'ff' || holders AS TEXT) WHERE id = 1")
    watch(tmp_path, told, 86_400 * 2)  # and the first rows are old enough to be merged
    opened = past(tmp_path)
    found = opened.tallies([START_MS, START_MS + 60_000])
    opened.close()
    assert {one.parties for one in found} == {(Party("?", "?"),), (Party("bob", "python train.py"),)}
    assert told == []


def test_a_row_of_the_journal_that_is_no_text_any_more_costs_no_other_row(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    journal = Journal(str(tmp_path), lambda: 1.0, told.append)
    journal.action("ada's job 1", "ask", said("1"), ["gpu:1"])
    change(tmp_path / "journal.db", "UPDATE event SET because = CAST(x'ff31' AS TEXT)")
    journal.action("ada's job 1", "ask", said("2"), ["gpu:1"])
    assert [event.because for event in journal.last("gpu:1")] == ["2", "\N{REPLACEMENT CHARACTER}1"]
    journal.close()
    assert told == []


def test_tables_whose_words_are_no_text_any_more_are_set_aside_by_who_writes_and_told_by_who_reads(
    tmp_path: pathlib.Path,
) -> None:
    told: list[str] = []
    watch(tmp_path, told)
    Journal(str(tmp_path), lambda: 1.0, told.append).close()
    for name in ("history.db", "journal.db"):
        file = tmp_path / name
        file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREATE \xa0ABLE"))
    opened = open_history(str(tmp_path))
    assert opened is not None
    with pytest.raises(FallowError, match="history cannot be read: its tables cannot be read"):
        opened.cards()
    opened.close()
    with pytest.raises(FallowError, match="is damaged"):
        journal_file.read(str(tmp_path), None, 9)
    journal = Journal(str(tmp_path), lambda: 1.0, told.append)
    journal.action("ada's job 1", "ask", said("2"), ["gpu:1"])
    assert [event.because for event in journal.last("gpu:1")] == ["2"]
    journal.close()
    watch(tmp_path, told, 60)
    assert [sentence.partition(":")[0] for sentence in told] == [
        "the journal was damaged (its tables cannot be read)",
        "history was damaged (its tables cannot be read)",
    ]
    assert (tmp_path / "history.db.damaged-1").exists()


def test_sums_whose_time_was_damaged_cost_no_plot(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    hours = [START_S // 3600 * 3600 + 3600 * hour for hour in range(1, 9)]
    for begin_s in hours:
        watch(tmp_path, told, round(begin_s - START_S) + 5)
    until_ms = round(hours[-1] + 8 * 3600) * 1000
    watch(tmp_path, told, until_ms // 1000 - round(START_S))
    whole = (tmp_path / "history.db").read_bytes()
    told_of = []
    for begin_s in hours:
        begin_ms = round(begin_s * 1000)
        damaged = whole.replace(begin_ms.to_bytes(6), (begin_ms - 2**39).to_bytes(6))
        assert damaged != whole, "there was a sum of that hour"
        (tmp_path / "history.db").write_bytes(damaged)
        opened = past(tmp_path)
        steps = steps_of(opened, opened.cards(), until_ms, SPANS["7d"], Prices(2.0))
        opened.close()
        told_of.append(sum(step.spent_ms.get(Activity.IDLE, 0) for step in steps))
    assert all(0 < ms < 8 * 2 * 10_000 for ms in told_of), "what is damaged is missing, and the rest is there"
    assert told == []
