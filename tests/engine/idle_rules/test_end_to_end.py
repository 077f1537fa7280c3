"""The patrol in real time: real processes on simulated GPUs, of several users."""

import grp
import os
import pathlib
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.engine.idle_rules.enforcer_resident import Resident
from tests.places import LIMIT_S
from tests.real_owners import eventually

RULE = {
    "name": "forgotten",
    "act": True,
    "idle_for": "3s",
    "warmup": "0s",
    "warn_before": "1500ms",
    "grace": "2s",
    "idle_below": "10%",
}
ADA = 61001
WORKS = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
RESTS = "import time; time.sleep(60)"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(simulated: Fallow) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def make(program: str, gpu: int, uid: int = os.geteuid()) -> "subprocess.Popen[bytes]":
        environ = simulated.on(str(gpu))
        python = "/usr/bin/python3" if uid != os.geteuid() else sys.executable
        started.append(
            subprocess.Popen([python, "-S", "-c", program], env=environ, start_new_session=True, user=uid, cwd="/")
        )
        return started[-1]

    yield make
    for process in started:
        process.kill()
        process.wait(LIMIT_S)


@pytest.fixture
def patrol(tmp_path: pathlib.Path) -> Iterator[Resident]:
    environ = Fallow(tmp_path).environ
    resident = Resident(environ)
    yield resident
    resident("end")
    resident.leave()


@pytest.mark.more
def test_a_real_process_that_works_is_left_alone(patrol: Resident, start: Start, tmp_path: pathlib.Path) -> None:
    works = start(WORKS, gpu=0)
    patrol("begin", environ=Fallow(tmp_path).environ, rules=[RULE], gpu_reader="simulated")
    assert patrol("watch", until="warned", limit_s=6.0) == []
    assert works.poll() is None


@pytest.mark.as_root
@pytest.mark.more
def test_of_several_users_only_the_one_who_idles_is_stopped(
    patrol: Resident, start: Start, tmp_path: pathlib.Path
) -> None:
    theirs, ours = start(RESTS, gpu=0, uid=ADA), start(WORKS, gpu=1)
    patrol("begin", environ=Fallow(tmp_path).environ, rules=[RULE], gpu_reader="simulated")
    told = patrol("watch", until="stopped: idle", limit_s=LIMIT_S)
    assert theirs.wait(LIMIT_S) == -signal.SIGTERM
    assert ours.poll() is None
    assert all(f"{ADA}'s job {theirs.pid}" in line for line in told)


@pytest.mark.as_root
@pytest.mark.more
def test_users_in_a_protected_group_and_those_whose_groups_nobody_knows_are_left_alone_beside_another(
    patrol: Resident, start: Start, tmp_path: pathlib.Path
) -> None:
    """Root is in its primary group, the user `daemon` is not, and one user has no account to look up."""
    ours, theirs, unknown = (
        start(RESTS, gpu=0),
        start(RESTS, gpu=1, uid=pwd.getpwnam("daemon").pw_uid),
        start(RESTS, 2, ADA),
    )
    protect = {"groups": [grp.getgrgid(0).gr_name]}
    patrol("begin", environ=Fallow(tmp_path).environ, rules=[RULE], protect=protect, gpu_reader="simulated")
    told = patrol("watch", until="stopped: idle", limit_s=LIMIT_S)
    assert theirs.wait(LIMIT_S) == -signal.SIGTERM
    assert ours.poll() is None
    assert unknown.poll() is None
    (said,) = [line for line in told if "[protect] groups" in line]
    assert f"those of {ADA} are unknown" in said


@pytest.mark.more
def test_a_rule_for_one_gpu_leaves_the_launch_beside_it_in_the_same_terminal_alone(
    patrol: Resident, simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    words = "fallow run --gpus 0 -- sleep 1000 & fallow run --gpus 2 -- sleep 1000 & wait"
    with subprocess.Popen(["sh", "-c", words], env=simulated.environ, start_new_session=True) as shell:
        try:
            eventually(lambda: len(sleeping(shell.pid)) == 2, "both launches")
            patrol("begin", environ=Fallow(tmp_path).environ, rules=[RULE | {"gpus": "0"}], gpu_reader="simulated")
            told = patrol("watch", until="stopped: idle", limit_s=LIMIT_S)
            assert " more" not in told[-1]
            (left,) = sleeping(shell.pid)
            assert "FALLOW_CLAIM=GPU-fa110000-0000-4000-8000-000000000002" in pathlib.Path(
                f"/proc/{left}/environ"
            ).read_text().split("\0")
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


@pytest.mark.more
def test_a_rule_judges_no_job_that_holds_a_gpu_which_it_does_not_name(
    patrol: Resident, start: Start, simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    claim = {"FALLOW_CLAIM": "another launch"}
    both = subprocess.Popen(["sleep", "1000"], env=simulated.on("0,2") | claim, start_new_session=True)
    alone = start(RESTS, gpu=0)
    try:
        patrol("begin", environ=Fallow(tmp_path).environ, rules=[RULE | {"gpus": "0"}], gpu_reader="simulated")
        patrol("watch", until="stopped: idle", limit_s=LIMIT_S)
        assert alone.wait(LIMIT_S) == -signal.SIGTERM
        assert both.poll() is None
    finally:
        both.kill()
        both.wait(LIMIT_S)


def sleeping(parent: int) -> list[int]:
    """The children of a shell that have become `sleep`."""
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep")]
