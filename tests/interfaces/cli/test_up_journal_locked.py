"""The daemon works while another process has locked its journal."""

import pathlib
import signal
import sqlite3
from contextlib import closing

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, wait_for_lines
from tests.places import LIMIT_S, ME

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
        assert simulated("up", "--reload").returncode == 0, "which the loop answers when it has written all of this"
    running.until("the journal is written again")
    running.process.kill()
    running.process.wait(LIMIT_S)
    assert "fill" in simulated("why", "0").stdout
