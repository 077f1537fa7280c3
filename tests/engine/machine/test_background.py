"""F34: work beside the loop that fails is reported and goes on; what was done in a thread says how it ended."""

import threading
from typing import Any

from fallow.core.findings import Outcome
from fallow.core.notices import Notice
from fallow.engine.machine.background import Background
from fallow.engine.notify.notifier import Notifier
from fallow.policies.grouping import GroupingRules, Message
from tests.places import LIMIT_S


def test_what_fails_is_reported_once_and_the_next_thing_is_done() -> None:
    reported: list[str] = []
    done: list[str] = []

    def work(thing: BaseException | str) -> None:
        if isinstance(thing, BaseException):
            raise thing
        done.append(thing)

    background = Background("history", work, reported.append, LIMIT_S)
    for thing in (KeyError("x"), KeyError("x"), "one", SystemExit(3), "two"):
        background.give(thing)
    assert background.end()
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

    background = Background("the log", work, print, LIMIT_S, most=3)
    background.give(0)
    assert begun.wait(LIMIT_S)
    for number in range(1, 6):
        background.give(number)
    assert not background.is_idle
    go.set()
    assert background.finish()
    assert done == [0, 3, 4, 5]


def test_work_that_hangs_is_waited_for_no_longer_than_its_deadline() -> None:
    go = threading.Event()
    background = Background("history", lambda _: go.wait(LIMIT_S), print, deadline_s=0.01)
    background.give(None)
    assert not background.end()
    go.set()


class Breaking:
    """A post that breaks at the first message."""

    reports_success = True

    def __init__(self) -> None:
        self.sent = threading.Event()
        self.messages: list[str] = []

    def send(self, urls: Any, message: Message) -> list[Outcome]:
        self.messages.append(message.text)
        if len(self.messages) == 1:
            raise ZeroDivisionError("by chance")
        self.sent.set()
        return [Outcome(True, "sent") for _ in urls]


def test_notices_go_on_after_one_that_broke() -> None:
    told: list[str] = []
    post, now = Breaking(), [0.0]
    notices = Notifier(["json://x"], GroupingRules(), post, lambda: now[0], told.append, "box")
    notices.note(Notice("idle", "pid:1@1", "the first"))
    now[0] = 10_000.0
    notices.note(Notice("idle", "pid:2@2", "the second"))
    for number in range(3, 60):
        if post.sent.wait(0.5):
            break
        now[0] += 10_000.0
        notices.note(Notice("idle", f"pid:{number}@1", "another"))
    assert post.sent.is_set()
    notices.close()
    assert any("internal error (ZeroDivisionError: by chance)" in line for line in told), told
