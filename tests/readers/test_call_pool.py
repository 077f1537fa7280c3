"""A call that never returns costs its own call and nothing else."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fallow.readers.call_pool import CallPool

PATIENT_S = 30.0
SHORT_S = 0.2


class Quick:
    def __init__(self, key: int, log: list[int]) -> None:
        self.key = key
        self.log = log

    def run(self, about_to: Callable[[str], None]) -> None:
        about_to("quick")
        self.log.append(self.key)


class Hung:
    def __init__(self, key: int, released: threading.Event) -> None:
        self.key = key
        self.entered = 0
        self._released = released

    def run(self, about_to: Callable[[str], None]) -> None:
        about_to("before")
        about_to("the call that hangs")
        self.entered += 1
        self._released.wait(PATIENT_S)


class Broken:
    key = 7

    def run(self, about_to: Callable[[str], None]) -> None:
        raise RuntimeError("a mistake of ours")


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def pool() -> CallPool:
    return CallPool(time.monotonic)


def test_all_calls_run_and_none_is_late(pool: CallPool) -> None:
    log: list[int] = []
    assert pool.make([Quick(key, log) for key in range(20)], PATIENT_S) == {}
    assert sorted(log) == list(range(20))


def test_a_call_that_hangs_is_named_with_its_call_while_the_others_finish(
    pool: CallPool, released: threading.Event
) -> None:
    log: list[int] = []
    late = pool.make([Quick(0, log), Hung(1, released), Quick(2, log), Hung(3, released), Quick(4, log)], SHORT_S)
    assert late == {1: "the call that hangs", 3: "the call that hangs"}
    assert sorted(log) == [0, 2, 4]
    assert pool.has_hung_call


def test_while_a_thread_is_inside_no_other_call_with_its_key_begins(
    pool: CallPool, released: threading.Event
) -> None:
    hung = Hung(1, released)
    pool.make([hung], SHORT_S)
    log: list[int] = []
    late = pool.make([Quick(1, log), Quick(2, log)], PATIENT_S)
    assert late == {1: "the call that hangs"}
    assert log == [2]
    assert hung.entered == 1


def test_once_the_call_came_back_its_key_is_served_again(pool: CallPool, released: threading.Event) -> None:
    pool.make([Hung(1, released)], SHORT_S)
    released.set()
    while pool.has_hung_call:
        time.sleep(0.001)
    log: list[int] = []
    assert pool.make([Quick(1, log)], PATIENT_S) == {}
    assert log == [1]


def test_a_mistake_in_a_call_is_raised_where_it_was_made(pool: CallPool) -> None:
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        pool.make([Broken()], PATIENT_S)


def test_a_second_thread_waits_for_the_calls_of_the_first(pool: CallPool, released: threading.Event) -> None:
    first = threading.Thread(target=pool.make, args=([Hung(1, released)], PATIENT_S))
    first.start()
    while not pool.has_hung_call:
        time.sleep(0.001)
    log: list[int] = []
    told: list[dict[object, str]] = []
    second = threading.Thread(target=lambda: told.append(pool.make([Quick(1, log)], PATIENT_S)))
    second.start()
    second.join(SHORT_S)
    assert told == []
    released.set()
    first.join()
    second.join()
    assert (told, log) == ([{}], [1])
