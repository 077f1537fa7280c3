"""Idle rules where the processes are the point: real signals, launches, setuid programs and commands."""

import os
import pathlib
import pwd
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.actuators.process.stage import sweep
from tests.conftest import Fallow
from tests.engine.idle_rules.test_rules import ASK_S, RULE, WARN_S
from tests.harness import Machine
from tests.places import LIMIT_S
from tests.scripted import ProcOnTheHost
from tests.waiting import end_group, until

CARD = "GPU-fa110000-0000-4000-8000-000000000000"
WAITS = "signal.pause()"
WORKER = pwd.getpwnam("daemon")
Started = subprocess.Popen[str]
Start = Callable[..., Started]


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Iterator[Machine]:
    """A machine with scripted GPUs that real processes hold."""
    made = Machine(tmp_path, proc=ProcOnTheHost())
    yield made
    made.close()


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """People's processes: each leads a session of its own, and has said that it is ready."""
    started: list[Started] = []
    mark = f"FALLOW_TEST={uuid.uuid4()}"
    environ = {**os.environ, "FALLOW_TEST": mark.partition("=")[2]}

    def make(program: str = WAITS, **how: Any) -> Started:
        text = "import os, signal, sys, time\nsignal.alarm(120)\n" + textwrap.dedent(program)
        if "ready" not in program:
            text = text.replace("signal.alarm(120)\n", "signal.alarm(120)\nprint('ready', flush=True)\n")
        script = tmp_path / f"job-{len(started)}.py"
        script.write_text(text)
        words = [sys.executable, "-S", "-E", str(script)]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environ, **how
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield make
    sweep(mark)
    for process in started:
        process.communicate(timeout=LIMIT_S)


def pass_until(machine: Machine, looked_for: Callable[[], object]) -> None:
    """Let a tenth of a second pass at each look, while a thread of the daemon or a program is at work."""

    def look() -> object:
        machine.pass_(seconds=0.1)
        return looked_for()

    until(look)


def slowly(rule: str) -> str:
    """The rule, of a daemon that looks ten times a second: little of its time passes while something real is done."""
    return f"[machine]\nevery = '0.1s'\n{rule}"


def test_a_job_gets_a_real_signal_and_only_it_and_what_is_below(machine: Machine, start: Start) -> None:
    below = "if os.fork() == 0:\n    print('ready', flush=True)\nsignal.pause()"
    job, other = start(below), start()
    machine.gpu(0).held_by(job.pid)
    machine.gpu(1).held_by(other.pid, load=0.5)
    machine.configure(RULE)
    machine.pass_(seconds=ASK_S)
    assert machine.said("SIGTERM to 2 processes") or machine.events()[-1].because == "SIGTERM to 2 processes"
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    assert other.poll() is None


def test_a_claim_that_nobody_uses_is_warned_asked_and_gone(machine: Machine, fallow: Fallow) -> None:
    launch = fallow.start("run", "--simulate", "1xH100", "--", "sleep", "1000")
    until(lambda: pathlib.Path(f"/proc/{launch.pid}/comm").read_text() == "sleep\n")
    machine.gpu(0).shows(uuid=CARD)
    machine.configure(RULE)
    machine.pass_(seconds=WARN_S + 2)
    (warned,) = [line for line in machine.told if " will be stopped " in line]
    assert f"job {launch.pid} (sleep)" in warned
    assert launch.poll() is None
    machine.pass_(seconds=9)
    assert launch.wait(LIMIT_S) == -signal.SIGTERM
    machine.pass_(seconds=2)
    assert "nobody of it is left" in machine.told[-1]


def test_a_launch_that_minds_its_own_job_is_left_to_itself(machine: Machine, fallow: Fallow) -> None:
    launch = fallow.start("run", "--simulate", "1xH100", "--idle-timeout", "1h", "--", "sleep", "1000")
    children = pathlib.Path(f"/proc/{launch.pid}/task/{launch.pid}/children")
    until(lambda: children.read_text().split())
    machine.gpu(0).shows(uuid=CARD)
    machine.configure(RULE)
    machine.pass_(seconds=60)
    assert machine.board.counting == ()
    assert launch.poll() is None


@pytest.fixture
def of_worker() -> Iterator[Start]:
    """Start a program of another user."""
    started: list[Started] = []

    def make(argv: list[str], executable: str | None = None) -> Started:
        process = subprocess.Popen(
            argv,
            executable=executable,
            user=WORKER.pw_name,
            group=WORKER.pw_gid,
            extra_groups=[],
            start_new_session=True,
            stdout=subprocess.PIPE,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            text=True,
        )
        started.append(process)
        return process

    yield make
    for process in started:
        end_group(process)


@pytest.mark.as_root
def test_a_job_below_its_users_own_fallow_is_in_roots_rules(machine: Machine, of_worker: Start) -> None:
    parent = of_worker(["fallow", "-c", "sleep 100 & echo $!; wait"], "/bin/bash")
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    machine.gpu(0).held_by(child)
    machine.configure(RULE)
    machine.pass_(seconds=5)
    (counting,) = machine.board.counting
    assert counting.subject.startswith(f"{WORKER.pw_name}'s job {child} ")


@pytest.mark.as_root
def test_a_process_of_root_below_a_job_is_left_alone_and_keeps_the_job_from_nothing(
    machine: Machine, of_worker: Start, open_folder: pathlib.Path
) -> None:
    program = open_folder / "program"
    shutil.copy(os.path.realpath("/usr/bin/python3"), program)
    program.chmod(0o4755)
    child = "import os, time; os.setresuid(0, 0, 0); print(os.getpid(), os.getuid(), flush=True); time.sleep(100)"
    job = of_worker(["bash", "-c", f"{program} -I -S -c '{child}' & wait"])
    assert job.stdout is not None
    pid, uid = map(int, job.stdout.readline().split())
    assert uid == 0, "setuid programs run here"
    pidfd = os.pidfd_open(pid)
    try:
        machine.gpu(0).held_by(job.pid)
        machine.configure(RULE)
        machine.pass_(seconds=60)
        job.wait(LIMIT_S)
        assert not select.select([pidfd], [], [], 0)[0], "it is root's and lives"
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


@pytest.fixture
def box(open_folder: pathlib.Path) -> pathlib.Path:
    """A folder of the worker's that everybody may enter."""
    folder = open_folder / "box"
    folder.mkdir(mode=0o755)
    os.chown(folder, WORKER.pw_uid, WORKER.pw_gid)
    return folder


@pytest.fixture
def job(request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the worker's, or of whom the test names."""
    user = getattr(request, "param", WORKER.pw_name)
    with subprocess.Popen(["sleep", "600"], user=user, start_new_session=True) as process:
        yield process
        process.kill()


def before(line: str, more: str = "") -> str:
    return slowly(f"{RULE}before = '''run:{line}'''\n{more}")


@pytest.mark.as_root
def test_a_command_saves_the_work_as_the_user_of_the_job_before_the_job_is_asked(
    machine: Machine, box: pathlib.Path, job: "subprocess.Popen[bytes]"
) -> None:
    wait = f"until [ -e {box}/go ]; do sleep 0.05; done"
    line = f"id -u > {box}/who; env | grep ^FALLOW_ | sort > {box}/facts; {wait}; touch {box}/saved; echo done"
    machine.gpu(0).held_by(job.pid)
    machine.configure(before(line))
    machine.pass_(seconds=ASK_S)
    pass_until(machine, lambda: (box / "facts").exists() and len((box / "facts").read_text().splitlines()) == 7)
    machine.pass_(seconds=1)
    assert job.poll() is None, "it is not asked while the command runs"
    (box / "go").touch()
    pass_until(machine, lambda: machine.said("stopping "))
    assert (box / "saved").stat().st_uid == WORKER.pw_uid
    assert (box / "who").read_text().split() == [str(WORKER.pw_uid)]
    facts = dict(line.split("=", 1) for line in (box / "facts").read_text().splitlines())
    assert facts.pop("FALLOW_BECAUSE").startswith("idle for ")
    assert facts == {
        "FALLOW_PID": str(job.pid),
        "FALLOW_PIDS": str(job.pid),
        "FALLOW_GPUS": "0",
        "FALLOW_UUIDS": machine.gpu(0).uuid,
        "FALLOW_RULE": "forgotten",
        "FALLOW_OWNER": "",
    }
    assert machine.said(f"job {job.pid} (sleep): 'id' ended well")
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    rows = [(event.kind, event.finding) for event in machine.events()]
    first = rows.index(("action", f"run 'id' as {WORKER.pw_name}"))
    assert rows[first + 1] == ("outcome", f"run 'id' as {WORKER.pw_name}")
    assert ("action", "ask the job to end with SIGTERM") in rows[first + 2 :]


@pytest.mark.as_root
@pytest.mark.parametrize("job", [WORKER.pw_name, "root"], indirect=True)
def test_nobody_is_told_what_such_a_command_prints(
    request: pytest.FixtureRequest, machine: Machine, job: "subprocess.Popen[bytes]"
) -> None:
    """Everybody reads outcomes, and a command that fails often prints an address with a password."""
    line = "echo uploading to s3://u:PASSWORD; echo PASSWORD >&2; exit 1"
    machine.gpu(0).held_by(job.pid)
    machine.configure(before(line, "before_as_root = true\n"))
    machine.pass_(seconds=ASK_S)
    pass_until(machine, lambda: machine.said("stopping "))
    assert [line for line in machine.told if line.endswith("'echo' ended with exit code 1")]
    assert job.wait(LIMIT_S) == -signal.SIGTERM, "it is asked all the same"
    assert "PASSWORD" not in str(machine.events()) + str(machine.told)


@pytest.mark.as_root
@pytest.mark.parametrize("job", ["root"], indirect=True)
@pytest.mark.parametrize("allowed", [False, True])
def test_nothing_runs_as_root_for_a_job_of_root_unless_the_rule_says_so(
    machine: Machine, box: pathlib.Path, job: "subprocess.Popen[bytes]", allowed: bool
) -> None:
    machine.gpu(0).held_by(job.pid)
    machine.configure(before(f"id -u > {box}/who", "before_as_root = true\n" if allowed else ""))
    machine.pass_(seconds=ASK_S)
    pass_until(machine, lambda: machine.said("stopping "))
    left_out = "'id' was not run: the job is root's, and its rule does not say before_as_root = true"
    assert machine.said("'id' ended well" if allowed else left_out)
    assert (box / "who").exists() is allowed


@pytest.mark.as_root
@pytest.mark.parametrize("by", ["work", "a protection"])
def test_a_job_that_works_again_or_is_protected_while_the_command_runs_is_not_asked(
    machine: Machine, box: pathlib.Path, job: "subprocess.Popen[bytes]", by: str
) -> None:
    machine.gpu(0).held_by(job.pid)
    machine.configure(before(f"touch {box}/begun; until [ -e {box}/go ]; do sleep 0.05; done; touch {box}/over"))
    machine.pass_(seconds=ASK_S)
    pass_until(machine, (box / "begun").exists)
    if by == "work":
        machine.gpu(0).held_by(job.pid, load=1.0)
    else:
        machine.protect(f"user:{WORKER.pw_name}")
    machine.pass_(seconds=1)
    assert machine.said(f"job {job.pid} (sleep) goes on: ")
    (box / "go").touch()
    until((box / "over").exists)
    machine.pass_(seconds=5)
    assert job.poll() is None


@pytest.mark.as_root
def test_no_more_commands_run_at_once_than_jobs_may_be_stopped(
    machine: Machine, box: pathlib.Path, job: "subprocess.Popen[bytes]"
) -> None:
    with subprocess.Popen(["sleep", "600"], user=WORKER.pw_name, start_new_session=True) as other:
        for index, process in enumerate((job, other)):
            machine.gpu(index).held_by(process.pid)
        line = f"touch {box}/for-$FALLOW_PID; while [ -d {box} ]; do sleep 0.05; done"
        machine.configure(f"{before(line)}[protect]\nat_most = 1\n")
        machine.pass_(seconds=ASK_S)
        pass_until(machine, lambda: list(box.glob("for-*")))
        machine.pass_(seconds=3)
        assert len(list(box.glob("for-*"))) == 1
        other.kill()
