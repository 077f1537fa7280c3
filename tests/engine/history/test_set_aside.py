"""A file that cannot be read as ours is renamed once, and a new one begins; a file that is removed too."""

import pathlib
import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from fallow.core.activity import Activity
from fallow.engine.history.journal import Journal
from fallow.engine.history.writer import HistoryWriter
from tests.engine.history.life import START_S, gpu_status, holder, past, status
from tests.places import LIMIT_S
from tests.reasons import said


def rubbish(file: pathlib.Path) -> None:
    file.write_bytes(b"not a database" * 1000)


def of_another_program(file: pathlib.Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE event (text TEXT)")


def watch(folder: pathlib.Path, told: list[str]) -> HistoryWriter:
    history = HistoryWriter(str(folder), told.append)
    for second in range(21):
        history.record(status(START_S + second, gpu_status(0, Activity.BUSY, holder())))
        history.settle(LIMIT_S)
    return history


@pytest.mark.parametrize("spoil", [rubbish, of_another_program])
def test_history_that_is_damaged_is_renamed_once_and_a_new_one_begins(
    tmp_path: pathlib.Path, spoil: Callable[[pathlib.Path], None]
) -> None:
    told: list[str] = []
    file, kept = tmp_path / "history.db", tmp_path / "history.db.damaged"
    spoil(file)
    before = file.read_bytes()
    watch(tmp_path, told).close()
    (sentence,) = told
    assert sentence.startswith("history was damaged (")
    assert sentence.endswith(f"): it is kept as {kept}, and a new one begins")
    assert kept.read_bytes() == before
    opened = past(tmp_path)
    assert len(opened.cards()) == 1
    opened.close()


@pytest.mark.parametrize("spoil", [rubbish, of_another_program])
def test_a_journal_that_is_damaged_is_renamed_once_and_a_new_one_begins(
    tmp_path: pathlib.Path, spoil: Callable[[pathlib.Path], None]
) -> None:
    told: list[str] = []
    spoil(tmp_path / "journal.db")
    journal = Journal(str(tmp_path), lambda: 1.0, told.append)
    journal.action("job", "ask", said("idle"), [])
    assert [event.subject for event in journal.last(None)] == ["job"]
    journal.close()
    (sentence,) = told
    assert sentence.endswith(f"): it is kept as {tmp_path}/journal.db.damaged, and a new one begins")


def test_files_that_are_removed_begin_anew(tmp_path: pathlib.Path) -> None:
    told: list[str] = []
    history, journal = watch(tmp_path, told), Journal(str(tmp_path), lambda: 1.0, told.append)
    for file in tmp_path.iterdir():
        file.unlink()
    journal.action("job", "ask", said("idle"), [])
    history.record(status(START_S + 30, gpu_status(0, Activity.BUSY, holder())))
    history.close()
    assert len(journal.last(None)) == 1
    journal.close()
    opened = past(tmp_path)
    assert len(opened.cards()) == 1
    opened.close()
    assert told == []
