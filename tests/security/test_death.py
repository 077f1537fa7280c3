"""Promise 7: the death of fallow harms no job, and leaves no filler and no stale claim."""

import os
import pathlib
import pwd
import signal
import subprocess

import pytest

from tests.interfaces.cli.filled import pids_written, wait_for_end, wait_for_lines
from tests.interfaces.cli.stopped import is_running
from tests.places import LIMIT_S
from tests.security.machine import ADA, BOB, QUICK_RULE, Machine
from tests.waiting import until

pytestmark = pytest.mark.as_root
WORKER = pwd.getpwnam("daemon")


@pytest.mark.parametrize(
    "by", [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.more) for each in (signal.SIGTERM, signal.SIGSEGV))]
)
def test_when_the_daemon_dies_its_fillers_end_and_jobs_go_on(machine: Machine, by: signal.Signals) -> None:
    pids = machine.home(WORKER.pw_uid) / "pids"
    script = f"trap '' TERM HUP; (setsid sleep 1000 & echo $! >> {pids}); echo $$ >> {pids}; sleep 1000; sleep 1000"
    filler = f"[[filler]]\nname = 'work'\nuser = '{WORKER.pw_name}'\nidle_for = 0\ngpus = 1\ngrace = '1s'\n"
    idle = machine.job(ADA, 0)
    daemon = machine.up(f"{QUICK_RULE}{filler}command = ['sh', '-c', '''{script}''']\n")
    wait_for_lines(pids, 2)
    daemon.until(f"{idle.pid} (sleep) will be stopped")
    os.kill(daemon.process.pid, by)
    daemon.process.wait(LIMIT_S)
    wait_for_end(pids_written(pids))
    assert is_running(idle.pid), "it was warned, and nobody is there who would stop it"
    assert machine.fallow(BOB, "run", "--gpus", "1", "--", "true").returncode == 0, "no claim of the filler is left"


def job_of(launch: "subprocess.Popen[str]") -> int:
    """Return the pid of the job that a launch watches, once it runs."""
    children = pathlib.Path(f"/proc/{launch.pid}/task/{launch.pid}/children")
    return int(until(lambda: children.read_text().split())[0])


def test_when_a_launch_dies_its_job_goes_on_with_the_claim_and_nothing_is_left_after_it(machine: Machine) -> None:
    launch = machine.begin(ADA, "run", "--gpus", "0", "--idle-timeout", "1h", "--", "sleep", "1000")
    job = job_of(launch)
    until(lambda: pathlib.Path(f"/proc/{job}/comm").read_text() == "sleep\n")
    launch.kill()
    launch.wait(LIMIT_S)
    refused = machine.fallow(BOB, "run", "--gpus", "0", "--", "true")
    assert (refused.returncode, is_running(job)) == (75, True), refused.stderr
    os.kill(job, signal.SIGKILL)
    until(lambda: not is_running(job))
    done = machine.fallow(BOB, "run", "--gpus", "0", "--", "true")
    assert done.returncode == 0, done.stderr
