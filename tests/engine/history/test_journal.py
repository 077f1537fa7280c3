"""The journal keeps every row that was written, whoever is killed when."""

import itertools
import pathlib
import subprocess
import sys

import pytest

from fallow.core.errors import FallowError
from fallow.core.findings import Event, Verdict, process_key
from fallow.core.reasons import Reason
from fallow.engine.history import journal_file
from fallow.engine.history.journal import Journal
from fallow.engine.history.sqlite_file import clock_time
from tests.places import LIMIT_S
from tests.reasons import said

WRITES_FOR_EVER = """
import sys
from fallow.core.findings import Verdict
from fallow.core.reasons import Reason
from fallow.engine.history.journal import Journal
journal = Journal(sys.argv[1], lambda: 1.0, print)
number = 0
while True:
    number += 1
    why = Reason("told", sentence=str(number))
    journal.verdict(Verdict("job", "idle", why, (("reading", "x" * 500),)), ["gpu:1"])
    print(number, flush=True)
"""


def test_what_is_told_of_a_user_is_found_behind_many_rows_of_others(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path), lambda: 60.0, print)
    journal.outcome("ann's job 11 (python)", "stopped", said("idle for 5m"), ["gpu:A"])
    journal.outcome("job 12", "stopped", Reason("told", sentence="idle", job_user="ann"), ["gpu:A"])
    for number in range(600):
        journal.outcome(f"annabel's job {number} (python)", "stopped", said("idle for 5m"), ["gpu:A"])
    assert [event.subject for event in journal.last("user:ann")] == ["job 12", "ann's job 11 (python)"]
    assert len(journal.last("user:annabel", most=1000)) == 600


def test_it_is_asked_by_gpu_by_process_or_for_anything(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path), lambda: 60.0, print)
    journal.verdict(Verdict("job 5", "idle", said("0 %"), (("GPU 0", "0 %"),)), ["gpu:A", "pid:5"])
    journal.action("job 5", "ask", said("idle for 5m"), ["gpu:A", "pid:5"])
    journal.outcome("guard", "shutdown", "done", ["gpu:B"])
    assert [event.kind for event in journal.last("gpu:A")] == ["action", "verdict"]
    assert [event.kind for event in journal.last("gpu:B")] == ["outcome"]
    assert len(journal.last(None)) == 3
    assert journal.last("gpu:A")[1].evidence == (("GPU 0", "0 %"),)
    assert journal.last("pid:5")[0].in_words(120.0) == "1m ago, action: job 5: ask: idle for 5m"
    journal.close()


def test_the_reason_of_a_row_is_kept_as_a_kind_and_facts(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path), lambda: 60.0, print)
    journal.action("job 5", "ask", Reason("idle", for_s=300.0, readings="0 %"), ["gpu:A"])
    journal.outcome("job 5", "ask", "it left", ["gpu:A"])
    outcome, action = journal.last("gpu:A")
    assert (action.because, action.reason) == ("idle for 5m: 0 %", "idle")
    assert action.facts == (("for_s", 300.0), ("readings", "0 %"))
    assert (outcome.reason, outcome.facts) == ("", ())
    journal.close()


def test_what_a_card_draws_at_rest_is_remembered(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path), lambda: 1.0, print)
    journal.remember_rest_power("GPU-1", 128.0)
    journal.remember_rest_power("GPU-1", 126.0)
    journal.close()
    again = Journal(str(tmp_path), lambda: 1.0, print)
    assert again.rest_power_w() == {"GPU-1": 126.0}
    again.close()


def test_a_journal_that_cannot_be_opened_is_told_once_and_swallows_nothing_else(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    told: list[str] = []
    journal = Journal(str(tmp_path / "file"), lambda: 1.0, told.append)
    journal.action("job", "ask", said("idle"), [])
    with pytest.raises(FallowError, match="no journal is kept"):
        journal.last(None)
    journal.close()
    assert len(told) == 1
    assert "no journal is kept" in told[0]


def test_old_rows_are_cleared_away_and_the_newest_stay(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path), lambda: 1.0, print, most_rows=100)
    for number in range(1, 501):
        journal.action("job", "ask", said(str(number)), ["gpu:1"])
    left = [event.because for event in journal.last("gpu:1", most=5000)]
    assert 100 <= len(left) <= 105
    assert left[0] == "500"
    journal.close()


READS_FOR_EVER = """
import sys
from fallow.engine.history import journal_file
from fallow.engine.history.journal import Journal
while True:
    journal_file.read(sys.argv[1], None, 5)
    Journal(sys.argv[1], lambda: 1.0, print).close()
"""


def test_nobody_who_opens_and_closes_beside_a_writer_costs_it_a_row(tmp_path: pathlib.Path) -> None:
    """F2: two processes open and close while a third writes, reads in a thread, and is killed at some moment."""
    reads_too = WRITES_FOR_EVER.replace(
        "number = 0",
        "import threading\n"
        "def read():\n    while True: journal.last(None, 5)\n"
        "threading.Thread(target=read, daemon=True).start()\nnumber = 0",
    )
    words = [sys.executable, "-c", READS_FOR_EVER, str(tmp_path)]
    written = 0
    with subprocess.Popen(words) as first, subprocess.Popen(words) as second:
        try:
            for kill_after in (5, 20):
                with subprocess.Popen(
                    [sys.executable, "-c", reads_too, str(tmp_path)], stdout=subprocess.PIPE, text=True
                ) as writer:
                    assert writer.stdout is not None
                    told = [writer.stdout.readline() for _ in range(kill_after)]
                    writer.kill()
                    told += writer.stdout.readlines()
                reported = itertools.takewhile(lambda line: line.strip().isdigit(), told)  # until it says otherwise
                written += len(list(reported))
                found = journal_file.read(str(tmp_path), "gpu:1", 10_000)
                assert len(found) >= written, "every row that was reported"
                written = len(found)
            assert (first.poll(), second.poll()) == (None, None), "both were there all the time"
        finally:
            first.kill()
            second.kill()


def test_a_process_is_its_pid_and_its_birth(tmp_path: pathlib.Path) -> None:
    """F14: after pid reuse nobody hears another process's story."""
    journal = Journal(str(tmp_path), lambda: 60.0, print)
    journal.action("the first", "ask", said("idle"), [process_key(7, 100)])
    journal.action("the second", "ask", said("idle"), [process_key(7, 200)])
    journal.action("another", "ask", said("idle"), [process_key(77, 1)])
    assert [event.subject for event in journal.last(process_key(7, 100))] == ["the first"]
    assert [event.subject for event in journal.last(process_key(7, 300))] == []
    assert [event.subject for event in journal.last("pid:7")] == ["the second"], "the last of that number"
    journal.close()


FULL_DISK = """
import resource, sys
from fallow.core.reasons import Reason
from fallow.engine.history.journal import Journal
journal = Journal(sys.argv[1], lambda: 1.0, lambda told: print(told, flush=True))
def act(number): journal.action("job", "ask", Reason("told", sentence=f"{number} " + "x" * 3000), ["gpu:1"])
act(0)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
for number in range(1, 600): act(number)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
act(600)
journal.close()
"""


def test_rows_wait_while_the_disk_is_full_and_those_that_are_lost_are_counted(tmp_path: pathlib.Path) -> None:
    """F2: what was reported is there, or a sentence says since when it is not."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    full, again = done.stdout.splitlines()
    assert "cannot be written now: " in full
    assert again == f"the journal is written again; 100 rows since {clock_time(1.0)} are lost"
    kept = [int(event.because.split()[0]) for event in journal_file.read(str(tmp_path), "gpu:1", 10_000)]
    assert kept == [*range(600, 100, -1), 0]


def test_an_event_says_what_was_found_once_and_then_why() -> None:
    """F8: it said `armed: armed: …`; whoever writes it down keeps the finding out of the reason."""
    event = Event(1, 60.0, "verdict", "evening", "armed", "work was seen for 60s", ())
    assert event.in_words(120.0) == "1m ago, verdict: evening: armed: work was seen for 60s"
