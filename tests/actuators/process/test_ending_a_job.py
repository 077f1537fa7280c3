"""The whole tree of a job ends, and nothing else."""

import os
import select
import shlex
import signal

import pytest

from fallow.actuators.process.tree import JobTree
from fallow.engine.machine.clock import SystemClock
from fallow.readers.proc import Proc, Stat
from tests.actuators.process.stage import LIMIT_S, job, play, wrapped

HARD_TO_END = ["ignores_term", "five_deep", "double_fork", "starts_anew", "first_thread_ended"]


@pytest.mark.parametrize("name", [*HARD_TO_END, "orphan_of_an_ended_job"])
def test_a_job_that_is_hard_to_end_leaves_nothing_behind(name: str) -> None:
    with play(wrapped("end", job(name))) as scene:
        assert scene.line() == "ready"
        scene.tell("end")
        said = scene.rest()  # comes back only when no process of the job is left
        assert "wrapper: survivors []" in said
        assert scene.code() == 124


@pytest.mark.parametrize(("name", "asked"), [("ends_on_term", 1), ("stopped_child", 2)])
def test_a_job_that_listens_is_only_asked_and_continued_to_hear_it(name: str, asked: int) -> None:
    with play(wrapped("end", job(name))) as scene:
        assert scene.line() == "ready"
        scene.tell("end")
        assert scene.rest() == [
            f"wrapper: asked {asked}",
            "wrapper: gone True",
            "wrapper: survivors []",
            "wrapper: ended Ended(code=3, by_signal=None)",
        ]


def test_children_that_the_wrapper_had_before_are_not_the_jobs() -> None:
    before = "sleep 60 & echo stranger $! > /dev/fd/$REPORT_FD; exec " + shlex.join(
        wrapped("end", job("double_fork"))
    )
    with play(["sh", "-c", before]) as scene:
        stranger = int(str(scene.line()).split()[1])
        assert scene.line() == "ready"
        scene.tell("end")
        while not str(scene.line()).startswith("wrapper: ended"):
            pass
        assert is_alive(stranger)


class CountedProc(Proc):
    """/proc, with the number of times that all processes were read."""

    looks = 0

    def everybody(self) -> list[Stat]:
        self.looks += 1
        return super().everybody()


def test_a_tree_of_named_processes_is_found_in_one_look_each_once_and_parents_first() -> None:
    """With a look for each of them, the stop of a job of 1,500 processes took a minute."""
    with play(job("five_deep")) as scene:
        assert scene.line() == "ready"
        line = named_tree(scene.wrapper.pid).living()
        assert len(line) == 6
        proc = CountedProc()
        named = [row.process for row in (line[4], line[3], line[1])]
        tree = JobTree(proc, named[0], SystemClock().monotonic_s, beside=named)
        assert [row.pid for row in tree.living()] == [row.pid for row in line[1:]]
        assert proc.looks == 1
        assert [tree.has(row.pid) for row in line] == [False] + [True] * 5
        assert not tree.has(os.getpid())
        assert tree.kill() == []
        os.kill(line[0].pid, signal.SIGKILL)
        assert scene.rest() == []


def test_who_left_a_named_tree_after_it_was_seen_is_still_found() -> None:
    with play(job("five_deep")) as scene:
        assert scene.line() == "ready"
        tree = named_tree(scene.wrapper.pid)
        third = tree.living()[2].pid
        os.kill(third, signal.SIGKILL)
        wait_until_dead(third)
        assert tree.kill() == []
        assert scene.rest() == []


def named_tree(pid: int) -> JobTree:
    stat = Proc().stat(pid)
    assert stat is not None
    return JobTree(Proc(), stat.process, SystemClock().monotonic_s)


def is_alive(pid: int) -> bool:
    stat = Proc().stat(pid)
    return stat is not None and stat.state != "Z"


def wait_until_dead(pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    try:
        assert select.select([pidfd], [], [], LIMIT_S)[0]
    finally:
        os.close(pidfd)
