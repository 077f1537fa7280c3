"""Files that are written, missing, pipes; and things that hang beside the loop."""

import os
import pathlib
import threading

import pytest

from fallow.core.unknown import Unknown
from fallow.engine.conditions.beside import Beside, Lanes
from fallow.engine.machine.clock import SystemClock
from tests.conftest import LIMIT_S
from tests.engine.conditions.stage import conditions, job_of, told_by
from tests.harness import ManualClock
from tests.waiting import until


def test_a_file_that_was_written_lately_is_touched_and_an_old_one_is_not(tmp_path: pathlib.Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.touch()
    old.touch()
    os.utime(old, (1e9, 1e9))
    job = job_of(os.getpid())
    touched, untouched = conditions(tmp_path).begin([f"file:{new}:10h", f"file:{old}:10h"])
    reason = told_by(touched, job)
    assert reason.kind == "file_touched"
    assert f"{new} was touched" in str(reason)
    assert told_by(untouched, job) is None


@pytest.mark.more
def test_a_file_that_changes_between_two_looks_is_touched(tmp_path: pathlib.Path) -> None:
    file, job = tmp_path / "beat", job_of(os.getpid())
    file.touch()
    (condition,) = conditions(tmp_path).begin([f"file:{file}"])
    first = condition(job)
    assert isinstance(first, Unknown)
    assert not first.asked
    assert told_by(condition, job) is None
    os.utime(file, (1e9, 1e9))
    assert told_by(condition, job, lambda found: found is not None).kind == "file_touched"
    assert told_by(condition, job, lambda found: found is None) is None


def test_a_file_that_is_not_there_cannot_be_told(tmp_path: pathlib.Path) -> None:
    (condition,) = conditions(tmp_path).begin([f"file:{tmp_path}/nowhere:5m"])
    found = told_by(condition, job_of(os.getpid()))
    assert isinstance(found, Unknown)
    assert "No such file" in found.why


def test_a_pipe_is_not_opened_and_keeps_nobody_waiting(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (condition,) = conditions(tmp_path).begin([f"file:{tmp_path}/pipe:10h"])
    assert told_by(condition, job_of(os.getpid())).kind == "file_touched"


def test_what_hangs_keeps_only_its_own_lane_waiting_and_is_unknown_after_a_while() -> None:
    clock, told, forever = ManualClock(), list[str](), threading.Event()
    lanes = Lanes(clock, told.append)
    hangs = Beside(lanes, "hangs", lambda: forever.wait(LIMIT_S))
    works = Beside(lanes, "works", lambda: True)
    try:
        assert isinstance(hangs.latest(), Unknown)
        until(lambda: works.latest() == (True, clock.monotonic_s()))
        not_yet = hangs.latest()
        assert isinstance(not_yet, Unknown)
        assert not not_yet.asked
        for _ in range(12):
            clock.sleep(1.0)
            late = hangs.latest()
        assert isinstance(late, Unknown)
        assert late.asked, "from now on it is said"
        assert [thread.name for thread in threading.enumerate()].count("hangs") == 1
    finally:
        forever.set()


def test_an_answer_that_is_old_is_unknown_and_one_that_nobody_asked_for_is_read_anew() -> None:
    clock, gate = ManualClock(), threading.Event()
    answered = [True]

    def read() -> bool:
        if not answered.pop(0):
            gate.wait(LIMIT_S)
        answered.append(True)
        return True

    thing = Beside(Lanes(clock, lambda _: None), "lane", read)
    until(lambda: not isinstance(thing.latest(), Unknown))
    answered[:] = [False]
    try:
        for _ in range(10):
            clock.sleep(1.0)
            found = thing.latest()
        assert isinstance(found, Unknown)
        assert found.asked
    finally:
        gate.set()
    clock.sleep(1.0)
    until(lambda: not isinstance(thing.latest(), Unknown))
    clock.sleep(100.0)
    late = thing.latest()
    assert isinstance(late, Unknown)
    assert not late.asked, "nobody asked, so that nothing failed"


def test_a_mistake_while_reading_is_unknown_and_reported_once() -> None:
    told: list[str] = []

    def read() -> bool:
        raise RuntimeError("a mistake of ours")

    thing = Beside(Lanes(SystemClock(), told.append), "lane", read)
    found = until(thing.latest, lambda found: isinstance(found, Unknown) and found.asked)
    assert found == Unknown("reading it failed")
    until(lambda: told)
    assert "a mistake of ours" in told[0]
