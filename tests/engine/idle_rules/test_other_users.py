"""Rules of root's daemon for jobs of others: their own fallow takes no job out, and a third user is not hit."""

import os
import pathlib
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.engine.idle_rules.enforcer_resident import Resident
from tests.engine.idle_rules.test_enforcer import RULE, on
from tests.places import LIMIT_S
from tests.waiting import end_group

pytestmark = pytest.mark.as_root
ADA = 61001
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process of another user."""
    started: list[subprocess.Popen[str]] = []

    def make(argv: list[str], executable: str | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            argv,
            executable=executable,
            user=ADA,
            group=ADA,
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


@pytest.fixture
def patrol(tmp_path: pathlib.Path) -> Iterator[Resident]:
    environ = Fallow(tmp_path).environ
    resident = Resident(environ)
    resident("begin", environ=environ, rules=[RULE])
    yield resident
    resident("end")
    resident.leave()


def test_a_job_below_its_users_own_fallow_is_in_roots_rules(patrol: Resident, start: Start) -> None:
    parent = start(["fallow", "-c", "sleep 100 & echo $!; wait"], "/bin/bash")
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert patrol("jobs", gpus=(on(0, child),)) == [(str(ADA), [child], (on(0).uuid,))]


def test_a_process_of_root_below_a_job_is_left_alone_and_keeps_the_job_from_nothing(
    patrol: Resident, start: Start, open_folder: pathlib.Path
) -> None:
    program = open_folder / "program"
    shutil.copy(os.path.realpath("/usr/bin/python3"), program)
    program.chmod(0o4755)
    child = "import os, time; os.setresuid(0, 0, 0); print(os.getpid(), os.getuid(), flush=True); time.sleep(100)"
    job = start(["bash", "-c", f"{program} -I -S -c '{child}' & wait"])
    assert job.stdout is not None
    pid, uid = map(int, job.stdout.readline().split())
    assert uid == 0, "setuid programs run here"
    pidfd = os.pidfd_open(pid)
    try:
        patrol("turn", gpus=[(on(0, job.pid),)] * 100)
        job.wait(LIMIT_S)
        assert not select.select([pidfd], [], [], 0)[0], "it is root's and lives"
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)
