"""People's jobs can save their work: a signal with the warning, a command before they are asked to end."""

import getpass
import pathlib
import signal
from collections.abc import Callable

import pytest

from tests.engine.idle_rules.enforcer_resident import Resident
from tests.engine.idle_rules.test_enforcer import RULE, Start, lives, on, patrol, start
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
    assert job.wait(10) == -signal.SIGTERM, "what follows the warning follows all the same"


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
    assert job.wait(10) == -signal.SIGTERM


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
    assert job.wait(10) == -signal.SIGTERM
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
