"""People's jobs can save their work: a signal with the warning, a command before they are asked to end."""

import getpass
import os
import pathlib
import pwd
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engine.idle_rules.enforcer_resident import Resident
from tests.engine.idle_rules.test_enforcer import RULE, Start, lives, on, patrol, start
from tests.places import LIMIT_S
from tests.waiting import until

__all__ = ["patrol", "start"]  # fixtures
WARNED = {**RULE, "warn_signal": "USR1"}
SAVES = """
def save(*_):
    open({file!r}, "w").write("saved")
signal.signal(signal.SIGUSR1, save)
print('ready', flush=True)
while True: signal.pause()
"""
IGNORES = "signal.signal(signal.SIGUSR1, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
Patrol = Callable[..., Resident]
WORKER = pwd.getpwnam("daemon")


def outcome(resident: Resident) -> str:
    """What came of the warning."""
    (words,) = [why for kind, what, why in resident("events") if kind == "outcome" and what.startswith("warn ")]
    return words


def test_a_job_that_catches_the_signal_of_the_warning_saves_its_work_and_lives_on(
    patrol: Patrol, start: Start, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "saved"
    job, resident = start(SAVES.format(file=str(file))), patrol(WARNED)
    told = resident("turn", gpus=[(on(0, job.pid),)] * 17)
    assert until(lambda: file.exists() and file.read_text()) == "saved"
    assert told[-1] == "rule forgotten: SIGUSR1 to 1 process"
    assert outcome(resident).endswith("; SIGUSR1 to 1 process")
    assert lives(job)
    resident("turn", gpus=[(on(0, job.pid),)] * 10)
    assert job.wait(LIMIT_S) == -signal.SIGTERM, "what follows the warning follows all the same"


@pytest.mark.parametrize(
    ("program", "why"), [("signal.pause()", "does not catch it"), (IGNORES, "ignores it")], ids=["default", "ignores"]
)
def test_a_job_that_does_not_catch_the_signal_does_not_get_it(
    patrol: Patrol, start: Start, program: str, why: str
) -> None:
    job, resident = start(program), patrol(WARNED)
    resident("turn", gpus=[(on(0, job.pid),)] * 17)
    assert outcome(resident).endswith(f"; SIGUSR1 to no process; not to pid {job.pid}, which {why}")
    assert lives(job)
    resident("turn", gpus=[(on(0, job.pid),)] * 10)
    assert job.wait(LIMIT_S) == -signal.SIGTERM


def test_only_processes_on_gpus_get_the_signal_of_the_warning(
    patrol: Patrol, start: Start, tmp_path: pathlib.Path
) -> None:
    """A worker that a training forked has its handlers, and would save over what the training saves."""
    program = f"""
    def save(*_):
        open(f"{tmp_path}/saved-{{os.getpid()}}", "w").close()
    signal.signal(signal.SIGUSR1, save)
    if os.fork() == 0:
        print('ready', flush=True)
    while True: signal.pause()
    """
    job, resident = start(program), patrol(WARNED)
    resident("turn", gpus=[(on(0, job.pid),)] * 17)
    until(lambda: list(tmp_path.glob("saved-*")))
    resident("turn", gpus=[(on(0, job.pid),)] * 10)
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    assert [path.name for path in tmp_path.glob("saved-*")] == [f"saved-{job.pid}"]


def test_a_dry_run_and_a_protection_send_no_signal_with_the_warning(
    patrol: Patrol, start: Start, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "saved"
    job, resident = start(SAVES.format(file=str(file))), patrol(WARNED, dry_run=True)
    told = resident("turn", gpus=[(on(0, job.pid),)] * 17)
    assert told[-1] == "rule forgotten: would send SIGUSR1 to those of its processes on GPUs that catch it"
    protected = patrol(WARNED)
    protected("protect", target=f"user:{getpass.getuser()}", for_s=3600.0)
    assert protected("turn", gpus=[(on(0, job.pid),)] * 60) == []
    assert lives(job)
    assert not file.exists()


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


def before(line: str, **keys: Any) -> dict[str, Any]:
    return {**RULE, "before": f"run:{line}", **keys}


def turn_until(resident: Resident, pid: int, says: str) -> list[str]:
    """Turn while the job idles, in small steps, until something is said; what was said."""
    told: list[str] = []

    def turn() -> bool:
        told.extend(resident("turn", gpus=[(on(0, pid),)], every_s=0.01))
        return any(says in line for line in told)

    until(turn)
    return told


def asked_after(resident: Resident, process: "subprocess.Popen[bytes]", says: str) -> str:
    """The job is asked to end once this was said of the command; what was said."""
    resident("turn", gpus=[(on(0, process.pid),)] * 25)
    told = turn_until(resident, process.pid, says)
    until(lambda: resident("turn", gpus=[(on(0, process.pid),)]) or process.poll() is not None)
    assert process.wait(LIMIT_S) == -signal.SIGTERM, "it is asked all the same"
    return next(line for line in told if says in line)


@pytest.mark.as_root
def test_a_command_saves_the_work_as_the_user_of_the_job_before_the_job_is_asked(
    patrol: Patrol, box: pathlib.Path, job: "subprocess.Popen[bytes]"
) -> None:
    wait = f"until [ -e {box}/go ]; do sleep 0.05; done"
    line = f"id -u > {box}/who; env | grep ^FALLOW_ | sort > {box}/facts; {wait}; touch {box}/saved; echo done"
    resident = patrol(before(line))
    resident("turn", gpus=[(on(0, job.pid),)] * 40)
    until(lambda: (box / "facts").exists() and len((box / "facts").read_text().splitlines()) == 7)
    assert resident("turn", gpus=[(on(0, job.pid),)] * 5) == []
    assert job.poll() is None, "it is not asked while the command runs"
    (box / "go").touch()
    told = turn_until(resident, job.pid, "stopping")
    assert (box / "saved").stat().st_uid == WORKER.pw_uid
    assert (box / "who").read_text().split() == [str(WORKER.pw_uid)]
    facts = dict(line.split("=", 1) for line in (box / "facts").read_text().splitlines())
    assert facts.pop("FALLOW_BECAUSE").startswith("idle for 20s: GPU 0: ")
    assert facts == {
        "FALLOW_PID": str(job.pid),
        "FALLOW_PIDS": str(job.pid),
        "FALLOW_GPUS": "0",
        "FALLOW_UUIDS": str(on(0).uuid),
        "FALLOW_RULE": "forgotten",
        "FALLOW_OWNER": "",
    }
    assert told[0].endswith(f"job {job.pid} (sleep): 'id' ended well")
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    rows = [(kind, what) for kind, what, _ in resident("events")]
    first = rows.index(("action", f"run 'id' as {WORKER.pw_name}"))
    assert rows[first + 1] == ("outcome", f"run 'id' as {WORKER.pw_name}")
    assert ("action", "ask the job to end with SIGTERM") in rows[first + 2 :]


@pytest.mark.as_root
@pytest.mark.parametrize("by", ["another user", "its own user"])
def test_nobody_is_told_what_such_a_command_prints(
    patrol: Patrol, box: pathlib.Path, job: "subprocess.Popen[bytes]", by: str
) -> None:
    """Everybody reads outcomes, and a command that fails often prints an address with a password."""
    line = "echo uploading to s3://u:PASSWORD; echo PASSWORD >&2; exit 1"
    if by == "another user":
        resident = patrol(before(line))
        told = asked_after(resident, job, "'echo' ended with exit code 1")
        assert told.endswith("'echo' ended with exit code 1")
    else:
        with subprocess.Popen(["sleep", "600"], start_new_session=True) as own:
            resident = patrol(before(line, before_as_root=True))
            assert asked_after(resident, own, "'echo' ended").endswith("'echo' ended with exit code 1")
    assert "PASSWORD" not in str(resident("events"))


@pytest.mark.as_root
@pytest.mark.parametrize("job", ["root"], indirect=True)
def test_nothing_runs_as_root_for_a_job_of_root_unless_the_rule_says_so(
    patrol: Patrol, box: pathlib.Path, job: "subprocess.Popen[bytes]"
) -> None:
    line = f"id -u > {box}/who"
    says = "'id' was not run: the job is root's, and its rule does not say before_as_root = true"
    asked_after(patrol(before(line)), job, says)
    assert not (box / "who").exists()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        told = patrol(before(line), dry_run=True)("turn", gpus=[(on(0, other.pid),)] * 30)
        assert any(line.endswith(": would leave out 'id', since the job is root's") for line in told)
        asked_after(patrol(before(line, before_as_root=True)), other, "'id' ended well")
    assert (box / "who").read_text().split() == ["0"]


@pytest.mark.as_root
@pytest.mark.parametrize("by", ["work", "a protection"])
def test_a_job_that_works_again_or_is_protected_while_the_command_runs_is_not_asked(
    patrol: Patrol, box: pathlib.Path, job: "subprocess.Popen[bytes]", by: str
) -> None:
    resident = patrol(before(f"touch {box}/begun; until [ -e {box}/go ]; do sleep 0.05; done; touch {box}/over"))
    resident("turn", gpus=[(on(0, job.pid),)] * 30)
    until((box / "begun").exists)
    if by == "work":
        told = resident("turn", gpus=[(on(0, job.pid, load=1.0),)])
    else:
        resident("protect", target=f"user:{WORKER.pw_name}", for_s=3600.0)
        told = resident("turn", gpus=[(on(0, job.pid),)])
    assert len(told) == 1
    assert f"job {job.pid} (sleep) goes on: " in told[0]
    (box / "go").touch()
    until((box / "over").exists)
    assert resident("turn", gpus=[(on(0, job.pid),)] * 5) == []
    assert job.poll() is None


@pytest.mark.as_root
def test_no_more_commands_run_at_once_than_jobs_may_be_stopped(
    patrol: Patrol, box: pathlib.Path, job: "subprocess.Popen[bytes]"
) -> None:
    resident = patrol(
        before(f"touch {box}/for-$FALLOW_PID; while [ -d {box} ]; do sleep 0.05; done"), protect={"at_most": 1}
    )
    with subprocess.Popen(["sleep", "600"], user=WORKER.pw_name, start_new_session=True) as other:
        cards = (on(0, job.pid), on(1, other.pid))
        resident("turn", gpus=[cards] * 40)
        until(lambda: list(box.glob("for-*")))
        resident("turn", gpus=[cards] * 12)
        assert len(list(box.glob("for-*"))) == 1
        other.kill()


def test_every_notice_about_a_job_names_the_person_whose_job_it_is(patrol: Patrol, start: Start) -> None:
    job, resident = start(), patrol()
    resident("turn", gpus=[(on(0, job.pid),)] * 17)
    resident("turn", gpus=[(on(0, job.pid, load=1.0),)])
    resident("turn", gpus=[(on(0, job.pid),)] * 25)
    assert job.wait(LIMIT_S) == -signal.SIGTERM
    resident("turn", gpus=[()] * 2)
    again = start(named="job-0.py")
    resident("turn", gpus=[(on(0, again.pid),)] * 2)
    notices = resident("notices")
    assert [notice.event for notice in notices] == ["warned", "goes_on", "warned", "stopped", "stopped"]
    assert {notice.person for notice in notices} == {getpass.getuser()}
    assert "came back after it was stopped" in notices[-1].text
    assert notices[0].advice == f"To keep it: fallow protect pid:{job.pid} --for 2h"
