"""Several hosts over a real ssh: seen in one view, and a launch on one of them, with the claim made there."""

import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from fallow.engine.history.writer import HistoryWriter
from tests.conftest import Fallow
from tests.interfaces.cli.test_report import two_cards
from tests.places import LIMIT_S
from tests.real_sshd import Hosts, missing
from tests.terminal import Terminal
from tests.waiting import until


@pytest.fixture
def hosts(tmp_path: pathlib.Path, fallow: Fallow) -> Iterator[Hosts]:
    why = missing()
    if why is not None:
        pytest.skip(why)
    made = Hosts(tmp_path / "hosts")
    fallow.environ |= made.environ
    yield made
    made.close()


def writes_its_place(log: pathlib.Path, seconds: str = "0") -> list[str]:
    """A command that writes its host, its GPUs, and when it began and ended."""
    line = (
        f'b=$(date +%s%N); sleep {seconds}; echo "$FALLOW_CLAIM_DIR $CUDA_VISIBLE_DEVICES $b $(date +%s%N)" >> {log}'
    )
    return ["sh", "-c", line]


@pytest.mark.engine
def test_all_hosts_are_in_one_view_within_the_bound_and_who_is_silent_has_a_row(hosts: Hosts, fallow: Fallow) -> None:
    for name in ("gpu1", "gpu2", "gpu3", "gpu4"):
        hosts.add(name, "2xH100")
    hosts.add_silent("hangs")
    hosts.add_silent("hangs2")
    hosts.add_refusing("refuses")
    began_s = time.monotonic()
    shown = fallow("status", "--on", "gpu[1-4],hangs,hangs2,refuses")
    took_s = time.monotonic() - began_s
    assert shown.returncode == 0, shown.stderr
    for name in ("gpu1", "gpu2", "gpu3", "gpu4"):
        assert f"{name} (" in shown.stdout
    assert shown.stdout.count("2 available (2 free)") == 4
    assert "hangs: ssh does not reach it" in shown.stdout
    assert "refuses: ssh does not reach it" in shown.stdout
    assert 10 <= took_s < 2 * 10, "one host's time, and not the sum"


@pytest.mark.engine
def test_the_reports_of_all_hosts_are_added_up_and_a_host_without_one_is_named(hosts: Hosts, fallow: Fallow) -> None:
    for name in ("gpu1", "gpu2"):
        history = HistoryWriter(str(hosts.add(name, "2xH100") / "state" / "simulated"), print)
        for one in two_cards(time.time() - 3600, 60, simulated=True):
            history.record(one)
        history.close()
    hosts.add_refusing("refuses")
    words = ("report", "--on", "gpu1,refuses,gpu2", "--price", "2/h")
    done = fallow(*words, "--by", "user", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "without refuses: ssh does not reach it" in done.stderr
    found = json.loads(done.stdout)
    assert [(host["name"], host["reason"]) for host in found["hosts"]] == [
        ("gpu1", None),
        ("refuses", "host_unreachable"),
        ("gpu2", None),
    ]
    users = {line["user"]: line for line in found["lines"]}
    assert users["bob"]["idle_s"] == pytest.approx(60, abs=0.1)
    assert users["bob"]["hosts"] == ["gpu1", "gpu2"]
    assert found["total"]["observed_s"] == pytest.approx(240, abs=1)
    title, *table = fallow(*words).stdout.splitlines()
    assert title.startswith("2 of 3 hosts, ")
    head, *rows = [line.split() for line in table]
    assert head == ["host", "free", "filled", "busy", "idle", "stuck", "unknown", "observed", "cost"]
    assert [row[0] for row in rows] == ["gpu1", "gpu2", "all"]


def test_watch_asks_again_until_ctrl_c_and_leaves_no_ssh_behind(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    (tmp_path / "answer").write_text(simulated("status", "--json").stdout)
    ssh, pids = tmp_path / "ssh", tmp_path / "pids"
    ssh.write_text(
        f"#!/bin/sh\necho $$ >> '{pids}'\n[ $(wc -l < '{pids}') -lt 3 ] || exec sleep 1000\ncat '{tmp_path}/answer'\n"
    )
    ssh.chmod(0o755)
    simulated.environ["FALLOW_SSH"] = str(ssh)
    watching = simulated.start("status", "--on", "gpu1", "--watch=500ms", "--json")
    assert watching.stdout is not None
    for _ in range(2):
        (host,) = json.loads(watching.stdout.readline())["hosts"]
        assert len(host["status"]["gpus"]) == 4
    until(lambda: len(pids.read_text().splitlines()) == 3, pause_s=0.1)
    watching.send_signal(signal.SIGINT)
    assert watching.wait(LIMIT_S) == -signal.SIGINT
    last = pids.read_text().split()[-1]
    until(lambda: not pathlib.Path(f"/proc/{last}").exists(), pause_s=0.1)


def test_a_host_that_ssh_does_not_reach_is_named_with_what_ssh_said_and_what_to_do(
    fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'ssh: Could not resolve hostname nosuch' >&2; exit 255\n")
    ssh.chmod(0o755)
    done = fallow("run", "--on", "nosuch", "--", "true", FALLOW_SSH=f"{ssh} -F none")
    assert (done.returncode, done.stdout) == (255, "")
    assert done.stderr.splitlines() == [
        "ssh: Could not resolve hostname nosuch",
        "fallow: nosuch: ssh, or the command, ended with exit code 255; the last message was: "
        "ssh: Could not resolve hostname nosuch",
        f"fallow: if ssh did not connect, nothing was run; try: {ssh} -F none nosuch true",
        "fallow: if the connection broke, the command is asked to end there; see: fallow status --on nosuch",
    ]
    ssh.write_text("#!/bin/sh\nexit 255\n")
    silent = fallow("run", "--on", "nosuch", "--", "true", FALLOW_SSH=str(ssh)).stderr
    assert silent.splitlines()[0] == "fallow: nosuch: ssh, or the command, ended with exit code 255"


def test_a_host_without_fallow_is_told_with_what_to_do_and_a_fallow_there_speaks_for_itself(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'bash: line 1: fallow: command not found' >&2; exit 127\n")
    ssh.chmod(0o755)
    words = ("run", "--on", "gpu1", "--", "train")
    done = simulated(*words, FALLOW_SSH=str(ssh))
    assert done.returncode == 127
    assert done.stderr.splitlines()[1] == (
        "fallow: gpu1: the command ended with exit code 127, or fallow cannot be run there;"
        " install fallow there, or name it in FALLOW_REMOTE"
    )
    ssh.write_text("#!/bin/sh\necho \"fallow: there is no command 'train'\" >&2; exit 127\n")
    assert simulated(*words, FALLOW_SSH=str(ssh)).stderr == "fallow: there is no command 'train'\n"


@pytest.mark.engine
@pytest.mark.more
def test_without_any_answer_the_exit_code_says_so(hosts: Hosts, fallow: Fallow) -> None:
    hosts.add_refusing("refuses")
    for command in ("status", "report"):
        assert fallow(command, "--on", "refuses").returncode == 69
    done = fallow("run", "--on", "refuses,refuses2", "--", "true")
    assert done.returncode == 69, done.stderr
    assert "ssh does not reach it" in done.stderr


@pytest.mark.engine
def test_input_output_and_exit_code_of_the_command_pass_through(hosts: Hosts, fallow: Fallow) -> None:
    hosts.add("gpu1", "1xH100")
    words = [
        "fallow",
        "run",
        "--on",
        "gpu1",
        "--",
        "sh",
        "-c",
        'cat; echo "it\'s $1" >&2; exit 75',
    ]
    done = subprocess.run(
        [*words, "sh", "a b $HOME `id`"],
        env=fallow.environ,
        input="what was typed\n",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout == "what was typed\n"
    assert done.stderr == "it's a b $HOME `id`\n"
    assert done.returncode == 75, "the command's own, and it was run once"


@pytest.mark.engine
@pytest.mark.more
def test_a_signal_that_the_command_dies_of_shows_in_the_exit_code(hosts: Hosts, fallow: Fallow) -> None:
    hosts.add("gpu1", "1xH100")
    assert fallow("run", "--on", "gpu1", "--", "sh", "-c", "kill -USR1 $$").returncode == 128 + signal.SIGUSR1


@pytest.mark.engine
@pytest.mark.more
def test_a_host_whose_gpus_are_taken_is_passed_over(hosts: Hosts, fallow: Fallow, tmp_path: pathlib.Path) -> None:
    folder = hosts.add("gpu1", "1xH100")
    hosts.add("gpu2", "1xH100")
    first = fallow.start("run", "--on", "gpu1", "--", "sh", "-c", "echo up; read line")
    assert first.stdout is not None
    assert first.stdout.readline() == "up\n"
    log = tmp_path / "log"
    for _ in range(2):
        assert fallow("run", "--on", "gpu1,gpu2", "--", *writes_its_place(log)).returncode == 0
    assert str(folder) not in log.read_text()
    alone = fallow("run", "--on", "gpu1", "--", "true")
    assert alone.returncode == 75
    assert "fallow status --on gpu1" in alone.stderr
    assert "fallow-refused" not in alone.stderr
    tried = fallow("run", "--on", "gpu1,gpu2", "--dry-run", "--", "true").stderr
    assert tried.splitlines()[0].startswith("fallow: on gpu2, which has GPU "), "where it would run is said"
    both = fallow("run", "--on", "gpu1,gpu2", "-n", "2", "--", "true")
    assert both.returncode == 2, "no host ever has two"
    waits = fallow.start("run", "--on", "gpu1", "--wait", "--", "echo", "my turn")
    assert waits.stderr is not None
    assert "waiting" in waits.stderr.readline()
    assert first.stdin is not None
    first.stdin.write("end\n")
    first.stdin.flush()
    assert waits.stdout is not None
    assert waits.stdout.read() == "my turn\n"


def processes_with(word: str) -> list[int]:
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if word.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", ["ctrl-c", "killed"])
@pytest.mark.engine
def test_the_whole_job_there_ends_when_this_end_does(hosts: Hosts, fallow: Fallow, how: str) -> None:
    folder = hosts.add("gpu1", "1xH100")
    job = fallow.start(
        "run", "--on", "gpu1", "--", "sh", "-c", "sleep 1000 & (trap '' HUP; echo up; sleep 1001); true"
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "up\n"
    its = f"FALLOW_CLAIM_DIR={folder}/claims"
    assert processes_with(its)
    if how == "ctrl-c":
        os.killpg(job.pid, signal.SIGINT)  # as a terminal does
        assert job.wait(LIMIT_S) == -signal.SIGINT
    else:
        os.killpg(job.pid, signal.SIGKILL)  # as a connection that breaks
    until(lambda: not processes_with(its), pause_s=0.2)
    assert fallow("run", "--on", "gpu1", "--", "true").returncode == 0, "and the GPU is free again"


@pytest.mark.engine
@pytest.mark.more
def test_a_terminal_here_is_a_terminal_there_and_ctrl_c_reaches_the_command(hosts: Hosts, fallow: Fallow) -> None:
    hosts.add("gpu1", "1xH100")
    script = "trap 'echo caught; exit 9' INT; tty; while :; do sleep 1; done"
    words = ["fallow", "run", "--on", "gpu1", "--", "sh", "-c", script]
    with Terminal(words, {**fallow.environ, "TERM": "dumb"}) as job:
        job.until("/dev/pts")
        job.type("\x03")
        job.until("caught")
        assert job.ended() == 9
