"""Idle rules for people's processes: real processes and real signals, on cards that the test describes."""

import getpass
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fallow.core.gpu import Gpu, Holder
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.actuators.process.stage import sweep
from tests.conftest import Fallow
from tests.core.gpus import GIB, held, idle
from tests.engine.idle_rules.enforcer_resident import Resident
from tests.places import LIMIT_S
from tests.waiting import until

RULE: dict[str, Any] = {
    "name": "forgotten",
    "act": True,
    "idle_for": "20s",
    "warmup": "5s",
    "warn_before": "10s",
    "grace": "5s",
}
WAITS = "signal.pause()"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
Cards = tuple[Gpu, ...]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Start]:
    """People's processes: each leads a session of its own, and has said that it is ready."""
    started: list[subprocess.Popen[str]] = []
    mark = f"FALLOW_TEST={uuid.uuid4()}"
    environ = {**os.environ, "FALLOW_TEST": mark.partition("=")[2]}

    def make(program: str = WAITS, *, named: str | None = None, **how: Any) -> "subprocess.Popen[str]":
        text = "import os, signal, subprocess, sys, time\nsignal.alarm(120)\n" + textwrap.dedent(program)
        if "ready" not in program:
            text = text.replace("signal.alarm(120)\n", "signal.alarm(120)\nprint('ready', flush=True)\n")
        script = tmp_path / (named or f"job-{len(started)}.py")
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


@pytest.fixture
def patrol(tmp_path: pathlib.Path) -> Iterator[Callable[..., Resident]]:
    """A patrol with rules, beside the processes."""
    made: list[Resident] = []
    environ = Fallow(tmp_path).environ

    def make(*rules: dict[str, Any], **how: Any) -> Resident:
        resident = Resident(environ)
        made.append(resident)
        resident("begin", environ=environ, rules=list(rules) or [RULE], **how)
        return resident

    yield make
    for resident in made:
        resident("end")
        resident.leave()


def lives(process: "subprocess.Popen[str]") -> bool:
    return process.poll() is None


def on(index: int, *pids: int, load: float = 0.0, **changes: Any) -> Gpu:
    """A card that these hold, each of which ran for so much of the time."""
    holders = tuple(Holder(pid, GIB, utilization=load) for pid in pids)
    quiet = held(index)
    assert not isinstance(quiet.recent, Unknown)
    return replace(
        quiet, holders=holders, utilization=load, recent=replace(quiet.recent, mean=load, peak=load), **changes
    )


def test_a_process_that_idles_is_warned_then_asked_then_gone(patrol: Callable[..., Resident], start: Start) -> None:
    job, resident = start(), patrol()
    told = resident("turn", gpus=[(on(0, job.pid),)] * 17)
    assert [line.partition(" will be stopped ")[1] for line in told] == [" will be stopped "]
    assert lives(job)
    told = resident("turn", gpus=[(on(0, job.pid),)] * 9)
    assert ": idle for 20s" in told[0]
    assert "rule forgotten: stopping " in told[0]
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    assert "nobody of it is left" in resident("turn", gpus=[(idle(),)] * 2)[-1]
    assert {"ask", "stopped"} <= set(resident("steps_by", rule="forgotten")), "the journal names the rule"
    kinds = [(kind, finding) for kind, finding, _ in resident("events", key=f"pid:{job.pid}")]
    assert kinds == [
        ("verdict", "idle"),
        ("action", "warn that the job will be asked to end in 10s"),
        ("outcome", "warn that the job will be asked to end in 10s"),
        ("verdict", "idle"),
        ("action", "ask the job to end with SIGTERM"),
        ("outcome", "ask the job to end with SIGTERM"),
        ("outcome", "stopped"),
    ]
    assert [notice.event for notice in resident("notices")] == ["warned", "stopped"]


def test_the_deeds_of_a_rule_are_counted_with_what_came_of_them(
    patrol: Callable[..., Resident], start: Start
) -> None:
    """F7"""
    job, resident = start(), patrol()
    resident("turn", gpus=[(on(0, job.pid),)] * 17)
    resident("turn", gpus=[(on(0, job.pid, load=1.0),)])
    resident("turn", gpus=[(on(0, job.pid),)] * 22)  # less than the grace after it is asked: its end takes real time
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    assert resident("actions") == {("warn", "done"): 2, ("cancel_warning", "done"): 1, ("ask", "done"): 1}
    is_dry_run = patrol(dry_run=True)
    is_dry_run("turn", gpus=[(on(0, start().pid),)] * 30)
    assert is_dry_run("actions") == {("warn", "dry_run"): 1, ("ask", "dry_run"): 1}


def logged_in(folder: pathlib.Path, *people: tuple[str, int]) -> str:
    """logind's folder of sessions, with these users at the terminals of these descriptors."""
    sessions = folder / "sessions"
    sessions.mkdir()
    for number, (user, fd) in enumerate(people):
        facts = f"USER={user}\nTTY={os.ttyname(fd).removeprefix('/dev/')}\nCLASS=user\nSTATE=active\n"
        (sessions / str(number)).write_text(facts)
    return str(sessions)


@pytest.mark.parametrize("action", [["park", "stop"], ["park"]])
def test_nobody_is_promised_that_a_job_is_parked_which_cannot_be_and_no_failure_counts_as_done(
    action: list[str], patrol: Callable[..., Resident], start: Start, tmp_path: pathlib.Path
) -> None:
    mine, my_terminal = os.openpty()
    job = start()
    resident = patrol({**RULE, "action": action}, sessions=logged_in(tmp_path, (getpass.getuser(), my_terminal)))
    told = resident("turn", gpus=[(on(0, job.pid),)] * 17)
    will = "will be stopped in 10s" if "stop" in action else "will be parked, if that is possible, in 10s"
    (notice,) = resident("notices")
    for said in (os.read(mine, 4096).decode(), notice.text, "\n".join(told)):
        assert will in said
        assert ("parked" in said.lower()) is ("stop" not in action)

    def counted() -> Any:
        resident("turn", gpus=[(on(0, job.pid),)])
        return resident("actions")

    found = until(counted, lambda seen: ("park", "failed") in seen)
    assert ("park", "done") not in found
    if "stop" in action:
        until(counted, lambda seen: ("ask", "done") in seen)
        assert job.wait(LIMIT_S) == -signal.SIGTERM
    else:
        assert job.poll() is None
    for fd in (mine, my_terminal):
        os.close(fd)


def test_its_owner_is_told_on_their_terminal_and_nobody_else_on_theirs(
    patrol: Callable[..., Resident], start: Start, tmp_path: pathlib.Path
) -> None:
    (mine, my_terminal), (others, other_terminal) = os.openpty(), os.openpty()
    sessions = logged_in(tmp_path, (getpass.getuser(), my_terminal), ("somebody", other_terminal))
    job, resident = start(), patrol(sessions=sessions)
    resident("turn", gpus=[(on(0, job.pid),)] * 17)
    said = os.read(mine, 4096).decode()
    assert f"fallow: your job {job.pid} " in said
    assert f"To keep it: fallow protect pid:{job.pid} --for 2h" in said
    os.set_blocking(others, False)
    with pytest.raises(BlockingIOError):
        os.read(others, 1)
    assert (
        "outcome",
        "warn that the job will be asked to end in 10s",
        f"told on {os.ttyname(my_terminal)}",
    ) in resident("events")
    for fd in (mine, my_terminal, others, other_terminal):
        os.close(fd)


@pytest.mark.as_root
def test_a_terminal_that_is_another_users_by_now_is_not_written_to(
    patrol: Callable[..., Resident], start: Start, tmp_path: pathlib.Path
) -> None:
    """A record of a login that was left over had a warning, with the name of the job, written to a neighbour."""
    (mine, my_terminal), (others, other_terminal) = os.openpty(), os.openpty()
    os.fchown(other_terminal, 61001, -1)
    sessions = logged_in(tmp_path, *((getpass.getuser(), fd) for fd in (my_terminal, other_terminal)))
    job, resident = start(), patrol(sessions=sessions)
    resident("turn", gpus=[(on(0, job.pid),)] * 17)
    assert f"fallow: your job {job.pid} " in os.read(mine, 4096).decode()
    os.set_blocking(others, False)
    with pytest.raises(BlockingIOError):
        os.read(others, 1)
    for fd in (mine, my_terminal, others, other_terminal):
        os.close(fd)


@pytest.mark.as_root
def test_a_process_of_another_user_below_the_holder_protects_it(
    patrol: Callable[..., Resident], start: Start
) -> None:
    below = """
    child = subprocess.Popen(["sleep", "100"], user=61001)
    print("ready", flush=True)
    child.wait()
    """
    job, resident = start(below), patrol()
    assert resident("turn", gpus=[(on(0, job.pid),)] * 100) == []
    assert lives(job)
    assert "is 61001's, not root's" in resident("events")[-1][2]


def test_a_child_of_a_holder_gets_the_signal_once(patrol: Callable[..., Resident], start: Start) -> None:
    program = """
    got = []
    child = os.fork()
    signal.signal(signal.SIGTERM, lambda *_: got.append(1))
    if child:
        print("ready", flush=True)
        print(child, flush=True)
    while True:
        time.sleep(0.05)
        if got:
            time.sleep(0.3)
            os._exit(len(got))
    """
    job, resident = start(program), patrol()
    assert job.stdout is not None
    child = int(job.stdout.readline())
    resident("turn", gpus=[(on(0, job.pid, child),)] * 26)
    assert job.wait(LIMIT_S) == 1, "a second SIGTERM is taken by many for the last"


def stop_after_stacks(resident: Resident, job: "subprocess.Popen[str]") -> None:
    """Let the rule stop a job on GPU 0; its stacks are written before it is asked."""
    told: list[str] = resident("turn", gpus=[(on(0, job.pid),)] * 26)
    while not any("stacks" in line for line in told):
        assert lives(job), "it is not asked before"
        told += resident("turn", gpus=[(on(0, job.pid),)], every_s=0.01)
    resident("turn", gpus=[(on(0, job.pid),)])
    assert job.wait(LIMIT_S) == -signal.SIGTERM


def test_stacks_are_written_before_it_is_asked(
    patrol: Callable[..., Resident], start: Start, tmp_path: pathlib.Path
) -> None:
    job, resident = start("def forgotten():\n    signal.pause()\nforgotten()"), patrol({**RULE, "dump_stacks": True})
    stop_after_stacks(resident, job)
    (written,) = (tmp_path / "state" / "simulated").glob("stacks-*.txt")
    assert "forgotten" in written.read_text()
