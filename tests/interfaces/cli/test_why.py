"""`fallow why` says first what a GPU is now and why, since when, who is on it and which rule counts."""

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator

import pytest

from fallow.core.board import Counting
from fallow.core.errors import WrongUsage
from fallow.core.findings import Verdict, process_key
from fallow.core.reasons import Reason
from fallow.engine.answers.asker import Asker
from fallow.engine.answers.why import explain
from fallow.engine.history.journal import Journal
from fallow.engine.machine.world import World as Machine
from fallow.interfaces.render.why_text import lines, ruled
from tests.conftest import Fallow
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
GONE = 2**22 - 7


def told(fallow: Fallow, subject: str) -> list[str]:
    """What `fallow why` prints, answered in this process."""
    machine = Machine(fallow.environ)
    return list(lines(explain(Asker(machine, print, print), subject)))


@pytest.fixture
def sleeper(simulated: Fallow) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who holds GPU 3 and does nothing."""
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("3")) as job:
        yield job
        job.kill()


def test_with_a_daemon_it_says_which_rule_counts_and_when_it_would_act(
    simulated: Fallow, sleeper: subprocess.Popen[bytes]
) -> None:
    simulated.up(RULES, "--listen", "127.0.0.1:0").until("up, with")
    seen = until(lambda: simulated("why", "3").stdout, lambda text: "counted since" in text, pause_s=PROGRAM_S)
    first, *rest = seen.splitlines()
    assert re.match(r"GPU 3 is \w+ for \S+ \(since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\): ", first), seen
    assert any(f"(pid {sleeper.pid}" in line for line in rest)
    (rule,) = [line for line in rest if line.startswith("  rule forgotten: ")]
    warned = r"; its people are warned in (19m|20m)\S* if that goes on$"
    assert re.search(rf": idle for \S+, counted since it was first seen{warned}", rule), rule
    assert any(line.startswith("  guard evening: ") for line in rest)
    facts = json.loads(simulated("why", str(sleeper.pid), "--json").stdout)
    assert (facts["watched"], [gpu["index"] for gpu in facts["gpus"]]) == (True, [3])
    (counting,) = facts["rules"]
    assert (counting["rule"], counting["fault"], counting["next"]) == ("forgotten", "idle", "warn")
    assert [guard["guard"] for guard in facts["guards"]] == ["evening"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "idle for 2m; its people are warned in 18m if that goes on"),
        ({"for_s": 0.0}, "not idle now; its people are warned once idle for 18m"),
        ({"begins_in_s": 60.0}, "new, so that nothing counts for another 1m; its people are warned in 18m"),
        ({"left_alone": "protection 7"}, "left alone: protection 7; without that its people are warned once idle"),
        ({"paused": "the load cannot be read"}, "paused: the load cannot be read"),
        ({"refused": "too many"}, "idle for 2m; nothing is done: too many"),
        ({"held_back": "nobody waits"}, "idle for 2m; nothing begins: nobody waits"),
        ({"action": "nothing"}, "idle for 2m; nothing more follows"),
        ({"action": "kill"}, "asked to end; what is left of it is killed in 18m"),
        ({"not_judged": "it is about the user bob"}, "not judged: it is about the user bob"),
    ],
)
def test_a_rule_says_what_follows_and_what_keeps_it_back(more: dict[str, object], words: str) -> None:
    facts = {"for_s": 120.0, "action": "warn", "in_s": 1080.0, **more}
    counting = Counting("night", "ada's job", ("GPU-1",), (), "idle", **facts)  # type: ignore[arg-type]
    assert ruled(counting).startswith(f"  rule night: ada's job: {words}")


@pytest.mark.more
def test_without_a_daemon_one_look_says_what_it_can_with_the_protection_in_force(
    simulated: Fallow, sleeper: subprocess.Popen[bytes]
) -> None:
    assert simulated("protect", "3", "--for", "2h", "--why", "debugging").returncode == 0
    seen = "\n".join(told(simulated, "3"))
    assert re.match(r"GPU 3 is \w+: ", seen), seen
    assert f"(pid {sleeper.pid}" in seen
    assert re.search(rf"{ME} protects GPU 3 \(protection \d+\): debugging; for another ", seen)
    assert "`fallow up` does not run, so it is not known since when" in seen
    assert "debugging" not in "\n".join(told(simulated, "2"))


def test_a_process_that_is_another_by_now_does_not_get_the_story_of_the_first(simulated: Fallow) -> None:
    us = os.getpid()
    journal = Journal(str(simulated.state), time.time, print)
    keys = [process_key(us, 1), process_key(GONE, 5)]
    journal.action("somebody's job", "ask the job to end", said("it idled"), keys)
    journal.close()
    ours = simulated("why", f"pid:{us}")
    assert "somebody" not in ours.stdout + ours.stderr
    assert f"pid {us} (" in ours.stderr
    first, event = told(simulated, f"pid:{GONE}")
    assert first == f"pid {GONE} has ended"
    assert "somebody's job: ask the job to end: it idled" in event


def test_the_last_stop_is_told_on_its_gpu_whatever_happened_since_and_to_its_user(simulated: Fallow) -> None:
    (gpu,) = json.loads(simulated("status", "3", "--json").stdout)["gpus"]
    keys = [f"gpu:{gpu['uuid']}"]
    journal = Journal(str(simulated.state), time.time, print)
    why = Reason("idle", for_s=180.0, readings=said("nothing ran"))
    journal.action("games's job 39 (python3)", "ask it", why.with_facts(step="ask", rule="forgotten"), keys)
    journal.outcome("games's job 39 (python3)", "stopped", said("nobody is left").with_facts(step="stopped"), keys)
    for _ in range(20):
        journal.verdict(Verdict("ada's job 40 (python3)", "idle", "0 %", ()), keys)
        journal.action("ada's job 40 (python3)", "warn it", why.with_facts(step="warn"), keys)
    journal.close()
    (line,) = [line for line in told(simulated, "3") if line.startswith("earlier: ")]
    stop = "games's job 39 (python3) was stopped: idle for 3m: nothing ran (rule forgotten)"
    assert line.endswith(stop)
    first, last = told(simulated, "user:games")
    assert first == "games has no job on a GPU that can be seen"
    assert last.endswith(stop)
    assert told(simulated, "mine")[-1] == f"the journal has no stop of a job of {ME}"


def test_a_stop_is_told_with_its_warning_and_the_warning_of_another_job_is_not(simulated: Fallow) -> None:
    gone = [process_key(GONE, 5)]
    warn, ask = "warn that the job will be asked to end in 5m", "ask the job to end with SIGTERM"
    journal = Journal(str(simulated.state), time.time, print)

    def story() -> list[str]:
        return [re.sub(r"^.* ago, (.*): .*", r"\1", line) for line in told(simulated, f"pid:{GONE}")[1:]]

    journal.verdict(Verdict("ada's job", "idle", "0 %", (("GPU 3", "nothing ran"),)), gone)
    assert story() == ["verdict: ada's job: idle", "  GPU 3: nothing ran"]
    journal.action("ada's job", warn, said("it idles").with_facts(step="warn"), gone)
    journal.verdict(Verdict("bob's job", "busy", said("it works")), gone)
    assert story() == ["verdict: bob's job: busy"]
    journal.action("ada's job", ask, said("it idles").with_facts(step="ask"), gone)
    journal.outcome("ada's job", "stopped", said("its memory is back").with_facts(step="stopped"), gone)
    journal.verdict(Verdict("filler low", "filled", said("nobody holds it")), gone)
    done = [f"action: ada's job: {warn}", f"action: ada's job: {ask}", "outcome: ada's job: stopped"]
    assert story() == [*done, "verdict: filler low: filled"]
    cancelled = said("it works").with_facts(step="cancel_warning")
    journal.action("ada's job", "cancel the warning", cancelled, gone)
    journal.verdict(Verdict("ada's job", "goes on", "it works"), gone)
    journal.close()
    assert story()[1:] == ["verdict: ada's job: goes on"], "a warning that was cancelled warns of nothing"


@pytest.mark.parametrize(
    ("subject", "way"),
    [
        ("all", "'all' names nothing here; write a GPU, pid:PID, user:NAME, mine"),
        ("gpu:9", "there is no GPU '9' here"),
        ("user:", "'user:' names nothing; write it as user:NAME"),
        ("user:NOBODY", "there is no user 'NOBODY' here, and nothing is known of jobs of that name; did you mean"),
        ("nobody", "there is no GPU 'nobody' here; for a user write user:nobody"),
        ("Mine", "there is no GPU 'Mine' here; did you mean mine?"),
        ("pid:1", "pid 1 ("),
        (f"{GONE}", f"there is neither a GPU nor a process {GONE}, and the journal has nothing on one "),
        (f"pid:{GONE}", f"there is no process {GONE}, and the journal has nothing on one that has ended; "),
    ],
)
def test_a_mistyped_subject_and_a_process_on_no_gpu_are_refused(simulated: Fallow, subject: str, way: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        told(simulated, subject)
    assert str(refused.value).startswith(way)


def test_a_refused_subject_is_2_and_an_empty_journal_is_said_to_be_empty(simulated: Fallow) -> None:
    done = simulated("why", "moon", "--json")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    done = simulated("why")
    assert (done.returncode, done.stdout) == (0, "the journal is empty: nothing was recorded yet\n")


def test_a_process_is_not_said_to_use_no_gpu_where_it_cannot_be_seen_who_uses_them(
    fallow: Fallow, world: World
) -> None:
    world.fault("*", card=2, error=15)
    done = fallow("why", f"pid:{os.getpid()}")
    assert done.returncode == 0, done.stderr
    assert "that can be seen" in done.stdout


def test_a_damaged_journal_is_told_plainly_and_not_taken_for_one_that_has_nothing(simulated: Fallow) -> None:
    simulated.state.mkdir(parents=True)
    (simulated.state / "journal.db").write_bytes(b"not a database" * 1000)
    done = simulated("why", "3", "--json")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["events"]) == (0, None)
    assert "is damaged" in facts["unknown"]["events"]
    last = simulated("why")
    assert (last.returncode, last.stdout) == (125, "")
    assert "`fallow up` renames it and begins a new one" in last.stderr
