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
from fallow.engine.history.sqlite_file import clock_time
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


@pytest.mark.parametrize("with_daemon", [False, True])
@pytest.mark.more
def test_why_and_status_name_the_hold_on_a_gpu_and_on_no_other(simulated: Fallow, *, with_daemon: bool) -> None:
    assert simulated("protect", "3", "--for", "2h", "--why", "debugging").returncode == 0
    if with_daemon:
        Fill(simulated.start("up", "--listen", "127.0.0.1:0")).until("up, ")
    (protection,) = json.loads(simulated("protect", "--list", "--json").stdout)["protections"]
    words = f" protects GPU 3 (protection {protection['id']}): debugging; for another "
    assert protection["subject"].startswith("gpu:GPU-")
    assert words in simulated("why", "3").stdout
    assert words in simulated("status", "-l", "3").stdout
    assert "protected" in simulated("status", "3").stdout
    assert f"\n{protection['by']}{words}" in simulated("status", "-l").stdout
    assert json.loads(simulated("why", "3", "--json").stdout)["protections"] == [protection]
    for other in (("why", "2"), ("status", "-l", "2"), ("why", str(os.getpid()))):
        assert "debugging" not in simulated(*other).stdout
    assert simulated("protect", f"pid:{os.getpid()}", "--for", "1h", "--why", "mine").returncode == 0
    assert ": mine; for another " in simulated("why", str(os.getpid())).stdout


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


@pytest.mark.more
def test_a_protection_has_one_end_in_one_answer(
    simulated: Fallow, sleeper: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "fallow.toml"
    config.write_text(RULES)
    config.chmod(0o600)
    assert simulated("protect", "3", "--for", "2h").returncode == 0
    Fill(simulated.start("up", "--config", str(config), "--listen", "127.0.0.1:0")).until("up, with")
    by_rule = "left alone: protection "
    told = until(lambda: simulated("why", "3").stdout, lambda told: by_rule in told, pause_s=PROGRAM_S)
    assert f"(pid {sleeper.pid}" in told
    assert told.count("for another") == 1, told


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


def test_it_says_when_people_were_warned_of_a_stop_that_came_since(simulated: Fallow) -> None:
    gone = process_key(2**22 - 7, 5)
    at_s, told = 1_800_000_000.0, []
    for minutes, kind, finding, step in (
        (0, "verdict", "idle", ""),
        (0, "action", "warn that the job will be asked to end in 5m", "warn"),
        (0, "outcome", "warn that the job will be asked to end in 5m", ""),
        (5, "verdict", "idle", ""),
        (5, "action", "ask the job to end with SIGTERM", "ask"),
    ):
        now_s = at_s + minutes * 60
        journal = Journal(str(simulated.state), lambda now_s=now_s: now_s, print)
        if kind == "verdict":
            journal.verdict(Verdict("ada's job", finding, "0 %", (("GPU 3", f"after {minutes} minutes"),)), [gone])
        else:
            getattr(journal, kind)("ada's job", finding, said("told on pts/3").with_facts(step=step), [gone])
        journal.close()
        told.append((clock_time(now_s), f"{kind}: ada's job: {finding}"))
    lines = simulated("why", "pid:4194297").stdout.splitlines()
    assert [line for line in lines if line.startswith("  ")] == ["  GPU 3: after 5 minutes"], "of the last verdict"
    events = [line for line in lines if "ada's job" in line]
    for line, (when, words) in zip(events, told[1:], strict=True):
        assert line.startswith(f"{when}, "), line
        assert words in line
    journal = Journal(str(simulated.state), lambda: at_s + 600, print)
    cancelled = said("it works").with_facts(step="cancel_warning")
    journal.action("ada's job", "cancel the warning", cancelled, [gone])
    journal.verdict(Verdict("ada's job", "goes on", "it works"), [gone])
    journal.close()
    assert "warn" not in simulated("why", "pid:4194297").stdout, "one that was cancelled warns of nothing"


def test_it_never_shows_the_warning_of_another_job_without_its_stop(simulated: Fallow) -> None:
    gone = process_key(2**22 - 7, 5)
    journal = Journal(str(simulated.state), time.time, print)
    warn, ask = "warn that the job will be asked to end in 5m", "ask the job to end with SIGTERM"

    def told() -> list[str]:
        lines = simulated("why", "pid:4194297").stdout.splitlines()[1:]
        return [re.sub(r"^.* ago, (.*): .*", r"\1", line) for line in lines]

    journal.action("ada's job", warn, said("it idles").with_facts(step="warn"), [gone])
    journal.verdict(Verdict("bob's job", "busy", said("it works")), [gone])
    assert told() == ["verdict: bob's job: busy"]
    journal.action("ada's job", ask, said("it idles").with_facts(step="ask"), [gone])
    journal.outcome("ada's job", "stopped", said("its memory is back").with_facts(step="stopped"), [gone])
    journal.verdict(Verdict("filler low", "filled", said("nobody holds it")), [gone])
    journal.close()
    assert told() == [
        f"action: ada's job: {warn}",
        f"action: ada's job: {ask}",
        "outcome: ada's job: stopped",
        "verdict: filler low: filled",
    ]


@pytest.mark.parametrize("subject", ["all", "user:", "moon", "gpu:9", "pid:x"])
def test_what_is_neither_a_gpu_nor_a_process_is_refused(simulated: Fallow, subject: str) -> None:
    done = simulated("why", subject)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("subject", "way"),
    [
        ("user:", "'user:' names no user; write user:NAME, as user:ada"),
        ("gpu:", "'gpu:' names no GPU; write gpu:3, or gpu: and a UUID"),
        (
            "user:NOBODY",
            "there is no user 'NOBODY' here, and nothing is known of jobs of that name; did you mean nobody?",
        ),
        ("nobody", "there is no GPU 'nobody' here; for a user write user:nobody"),
        ("", "'' names nothing; write 3, pid:123, user:NAME or mine"),
        ("Mine", "'Mine' names nothing; write 3, pid:123, user:NAME or mine"),
    ],
)
def test_who_mistypes_a_user_or_writes_no_name_is_told_what_to_type(
    simulated: Fallow, subject: str, way: str
) -> None:
    for words in ((), ("--json",)):
        done = simulated("why", subject, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert way in done.stderr


@pytest.mark.more
def test_a_rule_under_a_hold_says_who_holds_until_when_and_what_it_would_do_without(
    simulated: Fallow, sleeper: subprocess.Popen[bytes], tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "fallow.toml"
    config.write_text(RULES)
    config.chmod(0o600)
    assert simulated("protect", "3", "--for", "2h", "--why", "debugging").returncode == 0
    Fill(simulated.start("up", "--config", str(config), "--listen", "127.0.0.1:0")).until("up, with")
    told = until(lambda: simulated("why", "3").stdout, lambda told: "rule forgotten" in told, pause_s=PROGRAM_S)
    (rule,) = [line for line in told.splitlines() if line.startswith("  rule forgotten: ")]
    assert "not idle now" not in rule
    found = re.search(r": left alone: protection (\d+); without that its people are warned once idle for 20m$", rule)
    assert found, rule
    whose = rf"{ME} protects GPU 3 \(protection {found[1]}\): debugging; for another (2h|1h59m)"
    assert re.search(whose, told), "who and until when stands above, once"
    (counting,) = json.loads(simulated("why", "3", "--json").stdout)["rules"]
    assert f"{ME} protects GPU 3 (" in counting["left_alone"]
    (protection,) = json.loads(simulated("protect", "--list", "--json").stdout)["protections"]
    assert simulated("protect", "--release", str(protection["id"])).returncode == 0
    until(lambda: simulated("why", "3").stdout, lambda told: "left alone" not in told, pause_s=PROGRAM_S)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_process_on_no_gpu_and_one_that_does_not_exist_are_refused(
    simulated: Fallow, form: tuple[str, ...]
) -> None:
    us, gone = os.getpid(), 2**22 - 7
    for subject, sentence in (
        (str(us), rf"fallow: pid {us} \(\S+\) uses no GPU; "),
        (f"pid:{us}", rf"fallow: pid {us} \(\S+\) uses no GPU; "),
        (str(gone), f"fallow: there is neither a GPU nor a process {gone}, and the journal has nothing on one "),
        (f"pid:{gone}", f"fallow: there is no process {gone}, and the journal has nothing on one that has ended; "),
    ):
        done = simulated("why", subject, *form)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.match(sentence, done.stderr), done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.more
def test_a_rule_that_does_not_judge_a_job_on_its_gpus_says_why(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    rule = '[[idle]]\nname = "{}"\nidle_for = "30m"\n'
    rules = [
        rule.format("low") + 'gpus = "0-1"\n',
        rule.format("high") + 'gpus = "2"\n',
        rule.format("people") + 'users = ["daemon", "nobody"]\n',
        rule.format("programs") + 'commands = ["python*"]\n',
        rule.format("elsewhere") + 'gpus = "0"\n',
        rule.format("all"),
    ]
    config = tmp_path / "fallow.toml"
    config.write_text("\n".join(rules))
    config.chmod(0o600)
    with subprocess.Popen(["sleep", "1000"], env=simulated.on("1,2")) as job:
        try:
            Fill(simulated.start("up", "--config", str(config), "--listen", "127.0.0.1:0")).until("up, with")
            why = until(lambda: simulated("why", "2").stdout, lambda told: "rule all: " in told, pause_s=PROGRAM_S)
            rows = json.loads(simulated("why", "2", "--json").stdout)["rules"]
        finally:
            job.kill()
    found = dict(re.findall(r"rule (\w+): .*?: (not judged: .*)", why))
    assert found == {
        "low": "not judged: it also holds GPU 2, which the rule is not about",
        "high": "not judged: it also holds GPU 1, which the rule is not about",
        "people": "not judged: the rule is about the users daemon, nobody",
        "programs": "not judged: the rule is about the command python*",
    }
    assert {row["rule"] for row in rows if row["not_judged"] is None} == {"all"}
    assert "elsewhere" not in why


def test_a_process_that_does_not_exist_is_refused_also_while_all_is_protected(simulated: Fallow) -> None:
    gone = 2**22 - 7
    assert simulated("protect", "all", "--for", "1h").returncode == 0
    done = simulated("why", str(gone))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"fallow: there is neither a GPU nor a process {gone}, ")


@pytest.mark.more
def test_who_asks_about_a_launcher_is_told_which_process_below_it_is_on_a_gpu(simulated: Fallow) -> None:
    launcher = simulated.start("run", "--gpus", "1", "--idle-timeout", "1h", "--", "sleep", "1000")
    done = until(
        lambda: simulated("why", str(launcher.pid)), lambda told: "below it" in told.stderr, pause_s=PROGRAM_S
    )
    assert done.returncode == 2
    assert re.search(r"uses no GPU; pid (\d+) below it is on GPU 1; try: fallow why \1$", done.stderr), done.stderr


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
