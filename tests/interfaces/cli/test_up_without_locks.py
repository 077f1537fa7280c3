"""The daemon works where its files cannot be locked: on a network disk without locks, and while another has them."""

import pathlib
import signal
import sqlite3
import sys
from contextlib import closing

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, wait_for_lines
from tests.places import LIMIT_S, ME, REPOSITORY

pytestmark = pytest.mark.more

CONFIG = """
[terminals]
users = "ignore"
[[filler]]
name = "work"
gpus = 0
idle_for = 0
user = "{me}"
command = ["sh", "-c", "echo here >> {facts}; exec sleep 1000"]
"""
WHY = {"ENOLCK": "No locks available", "EOPNOTSUPP": "Operation not supported"}


@pytest.mark.parametrize("error", sorted(WHY))
def test_the_daemon_fills_a_gpu_where_nothing_can_be_locked_and_says_what_is_not_kept(
    simulated: Fallow, tmp_path: pathlib.Path, error: str
) -> None:
    facts, config = tmp_path / "facts", tmp_path / "fallow.toml"
    config.write_text(CONFIG.format(me=ME, facts=facts))
    without = [sys.executable, "-m", "tests.without_locks", error, str(tmp_path / "state")]
    words = [*without, "fallow", "up", "--listen", "127.0.0.1:0", "--config", str(config)]
    running = Fill(simulated.start_other(*words, PYTHONPATH=str(REPOSITORY)))
    running.until("up, with ")
    assert wait_for_lines(facts, 1) == ["here"], "it does its work"
    running.until(f"history is not kept in {simulated.state} for now: ")
    assert running.told(f"no journal is kept in {simulated.state} for now: ")
    (sentence,) = running.told("is written without a lock: ")
    assert WHY[error] in sentence
    assert sentence.endswith("; start no second `fallow up` there, or both count each hour")
    running.process.send_signal(signal.SIGTERM)
    running.until("ended by SIGTERM")
    running.process.wait(LIMIT_S)
    again = simulated("up", "--for", "0.1s")
    assert again.returncode == 0
    assert "without a lock" not in again.stderr, "as soon as the disk knows locks, there is one"


def test_rows_of_the_journal_that_waited_for_another_process_are_written_though_no_other_row_comes(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    facts, config = tmp_path / "facts", tmp_path / "fallow.toml"
    config.touch()
    running = Fill(simulated.start("up", "--listen", "127.0.0.1:0", "--config", str(config)))
    running.until("up, with ")
    with closing(sqlite3.connect(simulated.state / "journal.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        config.write_text(CONFIG.format(me=ME, facts=facts))
        running.process.send_signal(signal.SIGHUP)
        running.until("cannot be written now: database is locked")
        assert wait_for_lines(facts, 1) == ["here"], "it does its work"
        assert simulated("reload").returncode == 0, "which the loop answers when it has written all of this"
    running.until("the journal is written again")
    running.process.kill()
    running.process.wait(LIMIT_S)
    assert "fill" in simulated("why", "0").stdout
