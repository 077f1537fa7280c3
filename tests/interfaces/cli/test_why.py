"""F8: `fallow why` says first what a GPU is now and why, since when, who is on it and which rule counts."""

import json
import os
import pathlib
import re
import subprocess
import time
from collections.abc import Iterator

import pytest

from fallow.core.findings import Verdict, process_key
from fallow.core.reasons import Reason
from fallow.engine.history.journal import Journal
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import ME
from tests.reasons import said
from tests.standin.world import World
from tests.waiting import PROGRAM_S, until

RULES = f"""
[machine]
every = "0.2s"
[[idle]]
name = "forgotten"
idle_for = "30m"
warmup = 0
act = true
[[guard]]
name = "evening"
idle_for = "2h"
action = "run:true"
user = "{ME}"
"""


@pytest.fixture
def sleeper(simulated: Fallow) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who holds GPU 3 and does nothing."""
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("3")) as job:
        yield job
        job.kill()


def test_with_a_daemon_it_says_which_rule_counts_and_when_it_would_act(
    simulated: Fallow, sleeper: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "fallow.toml"
    config.write_text(RULES)
    config.chmod(0o600)
    Fill(simulated.start("up", "--config", str(config), "--listen", "127.0.0.1:0")).until("up, with")
    told = until(lambda: simulated("why", "3").stdout, lambda told: "counted since" in told, pause_s=PROGRAM_S)
    first, *rest = told.splitlines()
    assert re.match(r"GPU 3 is \w+ for \S+ \(since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\): ", first), told
    assert any(f"(pid {sleeper.pid}" in line for line in rest)
    (rule,) = [line for line in rest if line.startswith("  rule forgotten: ")]
    warned = r"; its people are warned in (19m|20m)\S* if that goes on$"
    assert re.search(rf": idle for \S+, counted since it was first seen{warned}", rule), rule
    (guard,) = [line for line in rest if line.startswith("  guard evening: ")]
    assert not re.search(r"\b(\w+): \1\b", guard), "no word twice"
    by_pid = simulated("why", str(sleeper.pid)).stdout
    assert by_pid.startswith("GPU 3 is ")
    assert "  rule forgotten: " in by_pid
    facts = json.loads(simulated("why", "3", "--json").stdout)
    assert facts["watched"] is True
    assert [gpu["index"] for gpu in facts["gpus"]] == [3]
    (counting,) = facts["rules"]
    assert (counting["rule"], counting["fault"], counting["next"]) == ("forgotten", "idle", "warn")
    assert counting["for_s"] > 0
    assert 1000 < counting["in_s"] < 1200
    assert [guard["guard"] for guard in facts["guards"]] == ["evening"]
    assert simulated("why", "0").stdout.startswith("GPU 0 is free for ")


@pytest.mark.more
def test_without_a_daemon_one_look_says_what_it_can(simulated: Fallow, sleeper: subprocess.Popen[bytes]) -> None:
    for subject in ("3", str(sleeper.pid)):
        told = simulated("why", subject).stdout
        assert re.match(r"GPU 3 is \w+: ", told), told
        assert f"(pid {sleeper.pid}" in told
        assert "`fallow up` does not run, so it is not known since when" in told
    facts = json.loads(simulated("why", "3", "--json").stdout)
    assert (facts["watched"], facts["rules"], facts["events"]) == (False, [], [])


def test_a_process_that_is_another_by_now_does_not_get_the_story_of_the_first(simulated: Fallow) -> None:
    """F14"""
    us, gone = os.getpid(), 2**22 - 7
    journal = Journal(str(simulated.state), time.time, print)
    journal.action(
        "somebody's job", "ask the job to end", said("it idled"), [process_key(us, 1), process_key(gone, 5)]
    )
    journal.close()
    ours = simulated("why", f"pid:{us}")
    assert "somebody" not in ours.stdout + ours.stderr
    assert f"pid {us} (" in ours.stderr
    ended = simulated("why", f"pid:{gone}").stdout
    assert ended.startswith(f"pid {gone} has ended\n")
    assert "somebody's job: ask the job to end: it idled" in ended


@pytest.fixture
def stopped_before(simulated: Fallow) -> None:
    """A journal in which games' job was stopped on GPU 3, and ada's, which came later, was warned twenty times."""
    (gpu,) = json.loads(simulated("status", "3", "--json").stdout)["gpus"]
    keys = [f"gpu:{gpu['uuid']}"]
    journal = Journal(str(simulated.state), time.time, print)
    why = Reason("idle", for_s=180.0, readings=said("nothing ran"))
    journal.verdict(Verdict("games's job 39 (python3)", "idle", "0 %", ()), keys)
    journal.action("games's job 39 (python3)", "ask it", why.with_facts(step="ask", rule="forgotten"), keys)
    journal.outcome("games's job 39 (python3)", "stopped", said("nobody is left").with_facts(step="stopped"), keys)
    for _ in range(20):
        journal.verdict(Verdict("ada's job 40 (python3)", "idle", "0 %", ()), keys)
        journal.action("ada's job 40 (python3)", "warn it", why.with_facts(step="warn"), keys)
    journal.close()


@pytest.mark.usefixtures("stopped_before")
def test_the_last_stop_on_a_gpu_is_told_whatever_happened_there_since(simulated: Fallow) -> None:
    (line,) = [line for line in simulated("why", "3").stdout.splitlines() if line.startswith("earlier: ")]
    assert line.endswith("games's job 39 (python3) was stopped: idle for 3m: nothing ran (rule forgotten)")


@pytest.mark.usefixtures("stopped_before")
def test_a_user_is_told_which_of_their_jobs_were_stopped(simulated: Fallow) -> None:
    told = simulated("why", "user:games")
    assert told.returncode == 0, told.stderr
    assert "games has no job on a GPU that can be seen\n" in told.stdout
    assert "games's job 39 (python3) was stopped: idle for 3m: nothing ran (rule forgotten)\n" in told.stdout
    assert "ada" not in told.stdout
    mine = simulated("why", "mine").stdout
    assert f"the journal has no stop of a job of {ME}\n" in mine
    assert json.loads(simulated("why", "mine", "--json").stdout)["subject"] == f"user:{ME}"


def test_a_process_is_not_said_to_use_no_gpu_where_it_cannot_be_seen_who_uses_them(
    fallow: Fallow, world: World
) -> None:
    world.fault("*", card=2, error=15)
    done = fallow("why", f"pid:{os.getpid()}")
    assert done.returncode == 0, done.stderr
    assert "that can be seen" in done.stdout


def test_a_damaged_journal_is_told_plainly_and_not_taken_for_one_that_has_nothing(simulated: Fallow) -> None:
    state = simulated.state
    state.mkdir(parents=True)
    file = state / "journal.db"
    file.write_bytes(b"not a database" * 1000)
    on_a_gpu = simulated("why", "3")
    assert on_a_gpu.returncode == 0
    assert on_a_gpu.stdout.startswith("GPU 3 is free")
    assert "has nothing" not in on_a_gpu.stdout
    damaged = f"the journal {file} is damaged (file is not a database); `fallow up` renames it and begins a new one"
    assert damaged in on_a_gpu.stderr
    facts = json.loads(simulated("why", "3", "--json").stdout)
    assert facts["events"] is None
    assert "is damaged" in facts["unknown"]["events"]
    last = simulated("why")
    assert (last.returncode, last.stdout) == (125, "")
    assert "is damaged" in last.stderr


def test_without_a_subject_an_empty_journal_is_said_to_be_empty(simulated: Fallow) -> None:
    done = simulated("why")
    assert (done.returncode, done.stdout) == (0, "the journal is empty: nothing was recorded yet\n")
