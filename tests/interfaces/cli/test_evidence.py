"""What the daemon has reported is there afterwards, whoever reads beside it and whatever is done to its files."""

import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.more

RULE = "[machine]\nevery = '0.2s'\n[[idle]]\nname = 'forgotten'\nidle_for = '0.5s'\nwarmup = 0\n"


class Watched:
    """A running `fallow up` whose rule reports each job that sleeps on a card: a row of the journal for each."""

    def __init__(self, fallow: Fallow, home: pathlib.Path) -> None:
        self._fallow = fallow
        self._jobs: list[subprocess.Popen[bytes]] = []
        config = home / "fallow.toml"
        config.write_text(RULE)
        config.chmod(0o600)
        self.state = fallow.state
        self.up = Fill(fallow.start("up", "--config", str(config), "--listen", "127.0.0.1:0"))
        self.up.until("up, with")

    def report(self, gpu: int) -> None:
        """Let one more process sleep on that card until it is reported."""
        self._jobs.append(subprocess.Popen(["sleep", "1000"], env=self._fallow.on(str(gpu))))
        self.up.until(" is idle for ", limit_s=LIMIT_S)

    def rows(self) -> list[dict[str, Any]]:
        """What any other process finds in the journal."""
        done = self._fallow("why", "--alone", "--json")
        assert done.returncode == 0, done.stderr
        events: list[dict[str, Any]] = json.loads(done.stdout)["events"]
        return events

    def until_there_is_history(self) -> None:
        """Until another process finds hours in history."""
        words = ("report", "--alone", "--format", "csv")
        until(lambda: self._fallow(*words).stdout, lambda table: "NVIDIA" in table, pause_s=PROGRAM_S)

    def end_jobs(self) -> None:
        """What each card did is known as soon as it is free; of one that idles only once that has lasted."""
        for job in self._jobs:
            job.kill()
            job.wait(LIMIT_S)


@pytest.fixture
def watched(simulated: Fallow, tmp_path: pathlib.Path) -> Iterator[Watched]:
    made = Watched(simulated, tmp_path)
    yield made
    made.end_jobs()


def test_readers_beside_the_daemon_and_inside_it_cost_no_row(watched: Watched, simulated: Fallow) -> None:
    """F2: reading in the daemon dropped its locks, and the next reader outside deleted the log under it."""
    for gpu in range(4):
        watched.report(gpu)
        assert simulated("why", str(gpu)).returncode == 0
        assert simulated("why", "--alone", str(gpu)).returncode == 0
        assert len(watched.rows()) == gpu + 1
    watched.up.process.kill()
    watched.up.process.wait(LIMIT_S)
    assert len(watched.rows()) == 4, "and after a kill"


def test_each_database_has_one_descriptor_in_the_daemon(watched: Watched, simulated: Fallow) -> None:
    """F2: whoever closes another one drops all locks of the process."""
    watched.until_there_is_history()
    watched.report(0)
    for words in (("why", "0"), ("report",), ("why", "0")):
        assert simulated(*words).returncode == 0
    folder = pathlib.Path("/proc", str(watched.up.process.pid), "fd")
    links = []
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            links.append(os.readlink(folder / name))
    assert sorted(link for link in links if link.endswith(".db")) == [
        str(watched.state / "history.db"),
        str(watched.state / "journal.db"),
    ]


def remove(state: pathlib.Path) -> None:
    for file in state.iterdir():
        file.unlink()


def remove_the_folder(state: pathlib.Path) -> None:
    shutil.rmtree(state)


def empty(state: pathlib.Path) -> None:
    for file in state.iterdir():
        os.truncate(file, 0)


def damage(state: pathlib.Path) -> None:
    for name in ("journal.db", "history.db"):
        with open(state / name, "r+b") as file:
            file.write(b"\x55" * os.path.getsize(state / name))


@pytest.mark.parametrize("harm", [remove, remove_the_folder, empty, damage])
def test_what_follows_the_loss_of_the_files_is_kept_and_the_loss_is_said(
    watched: Watched, simulated: Fallow, harm: Callable[[pathlib.Path], None]
) -> None:
    """F2, F34: it begins anew in truth."""
    watched.until_there_is_history()
    watched.report(0)
    harm(watched.state)
    watched.report(1)
    assert "and 1 more" in watched.rows()[0]["subject"]
    watched.end_jobs()
    if not any("history was " in line for line in watched.up.said):  # either of them may be found first
        watched.up.until("history was ", limit_s=LIMIT_S)
    said = " ".join(watched.up.said)
    year = time.strftime("%Y-")
    assert f"the journal was taken away: rows from before {year}" in said or "the journal was damaged (" in said
    watched.until_there_is_history()
    assert json.loads(simulated("why", "1", "--json").stdout)["events"], "the daemon reads the new one too"
    watched.up.process.terminate()
    assert watched.up.process.wait(LIMIT_S) == -signal.SIGTERM


def test_copies_in_the_place_of_the_files_are_written_on_and_nothing_is_called_gone(watched: Watched) -> None:
    watched.until_there_is_history()
    watched.report(0)
    for name in ("journal.db", "history.db"):
        shutil.copy(watched.state / name, watched.state / f"new-{name}")
        (watched.state / f"new-{name}").replace(watched.state / name)
    watched.report(1)
    assert len(watched.rows()) == 2
    assert not [line for line in watched.up.said if "the journal was " in line or "taken away" in line]


def test_a_journal_that_is_locked_by_somebody_gets_its_rows_later(watched: Watched) -> None:
    """F2: rows that cannot be written wait; both are said."""
    watched.report(0)
    other = sqlite3.connect(watched.state / "journal.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    watched.report(1)
    assert any("cannot be written now: database is locked" in line for line in watched.up.said)
    other.execute("ROLLBACK")
    other.close()
    watched.report(2)
    assert any("the journal is written again" in line for line in watched.up.said)
    assert len(watched.rows()) == 3


def test_databases_that_are_folders_are_a_sentence_on_every_face(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    """F38: history.db a folder was a 500 of the page and an internal error of `report`."""
    state = simulated.state
    for name in ("history.db", "journal.db"):
        (state / name).mkdir(parents=True)
    done = simulated("report")
    assert "mistake" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert f"history in {state} cannot be read: it is a folder" in done.stderr
    running = Fill(simulated.start("up", "--listen", "127.0.0.1:0", FALLOW_CONFIG=""))
    url = running.until("the page is at").partition("http://")[2].partition("/")[0]
    running.until("history is not kept", limit_s=LIMIT_S)
    assert any(
        f"no journal is kept in {state} for now: {state}/journal.db is no file" in line for line in running.said
    )
    host, _, port = url.partition(":")
    for path in ("/api/v1/history", "/api/v1/report", "/api/v1/events"):
        status, body = asked(host, int(port), path)
        assert (status, "cannot be" in body or "is no file" in body) == (503, True), body
    assert asked(host, int(port), "/")[0] == 200
    for words in (("report",), ("why", "0")):
        told = simulated(*words)
        assert "mistake" not in told.stderr, told.stderr
        assert "Traceback" not in told.stderr


def asked(host: str, port: int, path: str) -> tuple[int, str]:
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=LIMIT_S)
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body
