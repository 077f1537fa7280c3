"""A deed that takes long is done beside whoever looks, in order, and its end is passed on by them alone."""

import threading

from fallow.core.findings import Outcome
from fallow.engine.jobs.executor import InThread
from tests.places import LIMIT_S


def test_who_begins_a_deed_does_not_wait_and_hears_of_its_end_when_they_collect() -> None:
    doer, may_end, over = InThread("test"), threading.Event(), threading.Event()
    heard: list[tuple[str, int]] = []

    def slow() -> Outcome:
        may_end.wait(LIMIT_S)
        return Outcome(True, "slow")

    def last() -> Outcome:
        over.set()
        return Outcome(True, "last")

    def note(outcome: Outcome) -> None:
        heard.append((outcome.words, threading.get_ident()))

    doer.begin(slow, note)
    doer.begin(lambda: Outcome(1 // 0 == 0, "never"), note)
    doer.begin(last, note)
    doer.collect()
    assert heard == []
    may_end.set()
    assert over.wait(LIMIT_S)
    while len(heard) < 3:  # the last has ended; that it is put down follows
        doer.collect()
    me = threading.get_ident()
    broken = "it failed with ZeroDivisionError: integer division or modulo by zero"
    assert heard == [("slow", me), (broken, me), ("last", me)]
