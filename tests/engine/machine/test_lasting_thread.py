"""F34: a thread of the daemon that fails says so and goes on; what was done in one says how it ended."""

import threading
from typing import Any

from fallow.core.findings import Outcome
from fallow.core.notices import Notice
from fallow.engine.fill.suspension import Suspension
from fallow.engine.machine.lasting_thread import steady
from fallow.engine.notify.notifier import Notifier
from fallow.policies.grouping import GroupingRules, Message

LIMIT_S = 30.0


def test_work_that_fails_is_told_once_and_done_again() -> None:
    told: list[str] = []
    tries = iter([KeyError("x"), KeyError("x"), SystemExit(3), None])

    def work() -> None:
        failure = next(tries)
        if failure is not None:
            raise failure

    thread = steady("history", work, told.append, pause_s=0.0)
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert told == [
        "history: internal error (KeyError: 'x'); it goes on",
        "history: internal error (SystemExit: 3); it goes on",
    ]


def test_a_suspension_that_breaks_has_failed() -> None:
    over = threading.Event()

    def work() -> None:
        raise ZeroDivisionError("by chance")

    suspension = Suspension(work, over.set, 0.0, "suspended")
    assert over.wait(LIMIT_S)
    assert suspension.failure == "it failed with ZeroDivisionError: by chance"


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
