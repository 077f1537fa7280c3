"""F34: work beside the loop that fails is reported and goes on."""

import threading

from fallow.engine.machine.background import Background, do_once
from tests.places import LIMIT_S
from tests.waiting import until


def test_what_fails_is_reported_once_and_the_next_thing_is_done() -> None:
    reported: list[str] = []
    done: list[str] = []

    def work(thing: BaseException | str) -> None:
        if isinstance(thing, BaseException):
            raise thing
        done.append(thing)

    background = Background("history", work, reported.append)
    for thing in (KeyError("x"), KeyError("x"), "one", SystemExit(3), "two"):
        background.give(thing)
    assert background.end(LIMIT_S)
    assert done == ["one", "two"]
    assert reported == [
        "history: internal error (KeyError: 'x'); it goes on",
        "history: internal error (SystemExit: 3); it goes on",
    ]


def test_things_are_done_in_order_and_of_too_many_the_oldest_are_dropped() -> None:
    go, begun, done = threading.Event(), threading.Event(), list[int]()

    def work(number: int) -> None:
        begun.set()
        go.wait(LIMIT_S)
        done.append(number)

    background = Background("the log", work, print)
    background.give(0)
    assert begun.wait(LIMIT_S)
    for number in range(1, 1003):
        background.give(number)
    assert not background.is_idle
    go.set()
    assert background.finish(LIMIT_S)
    assert done == [0, *range(3, 1003)]


def test_a_thread_ends_once_everything_is_done_though_nobody_waits_for_it() -> None:
    done: list[str] = []
    do_once("just once", lambda: done.append("it"), print)
    until(lambda: "just once" not in {thread.name for thread in threading.enumerate()})
    assert done == ["it"]


def test_work_that_hangs_is_waited_for_no_longer_than_its_deadline() -> None:
    go = threading.Event()
    background = Background("history", lambda _: go.wait(LIMIT_S), print)
    background.give(None)
    assert not background.end(0.01)
    go.set()
