"""Notices on their way: to a real web server, and past one that never answers."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fallow.core.findings import Outcome
from fallow.core.notices import Notice
from fallow.engine.history.journal import Journal
from fallow.engine.history.run import Report, Run
from fallow.engine.machine.world import World
from fallow.engine.notify.notifier import Notifier, notifier_for
from fallow.policies.grouping import GroupingRules, Message
from tests.actuators.host.test_hooks import serving
from tests.conftest import Fallow
from tests.places import LIMIT_S

SECRET = "hunter2"
AT_ONCE = GroupingRules(group_for_s=0.0)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def make(fallow: Fallow, told: list[str]) -> Iterator[Callable[..., Notifier]]:
    made: list[Notifier] = []

    def build(*urls: str, rules: GroupingRules = AT_ONCE, dry_run: bool = False) -> Notifier:
        journal = Journal("/dev/null/nowhere", time.time, lambda _: None)
        run = Run(World(fallow.environ), journal, Report(told.append), dry_run)
        made.append(notifier_for(run, urls, rules))
        return made[-1]

    yield build
    for each in made:
        each.close(0.0)


def lost(number: int = 3) -> Notice:
    return Notice("card_lost", f"gpu:{number}", f"GPU {number} cannot be used")


def test_a_web_server_gets_several_as_one_through_apprise(make: Callable[..., Notifier], told: list[str]) -> None:
    with serving() as (address, got):
        sender = make(address.replace("http://", f"json://user:{SECRET}@"), rules=GroupingRules(group_for_s=60.0))
        sender.note(lost(3))
        sender.note(lost(4))
        sender.close(30)
        message = got.get(timeout=LIMIT_S)
    assert isinstance(message, dict)
    assert message["title"].endswith(": 2 notices")
    assert message["message"] == "GPU 3 cannot be used\nGPU 4 cannot be used"
    assert told == []


def test_a_service_that_never_answers_delays_nobody_and_is_told_once(
    make: Callable[..., Notifier], told: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, serving() as (address, got):
        port = silent.getsockname()[1]
        sender = make(f"json://user:{SECRET}@127.0.0.1:{port}/{SECRET}", address.replace("http://", "json://"))
        sender.note(lost(1))
        assert got.get(timeout=LIMIT_S), "the other service has it"
        sender.close(0.2)
    assert told == ["notices: the last could not be sent in time"], "nobody waited until it had failed"


def test_a_failure_is_told_without_secrets(make: Callable[..., Notifier], told: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    sender = make(f"json://user:{SECRET}@127.0.0.1:{port}/{SECRET}")
    sender.note(lost())
    sender.close(60)
    failure = "could not tell json://…: Apprise could not deliver it"
    assert told == [f"notices: {failure}; reported once, until it works again"]


class FailingPost:
    """Hands that fail as the test says, and ring when they have."""

    reports_success = False

    def __init__(self, *ok: bool) -> None:
        self._ok = list(ok)
        self.sent = threading.Semaphore(0)

    def send(self, urls: Any, message: Message) -> list[Outcome]:
        self.sent.release()
        return [Outcome(self._ok.pop(0), "no answer")] * len(urls)


def test_that_a_service_fails_is_told_once_until_it_works_again(told: list[str]) -> None:
    post = FailingPost(False, False, True, False)
    sender = Notifier(("json://x",), AT_ONCE, post, time.monotonic, told.append, "host")
    for number in range(4):
        sender.note(lost(number))
        assert post.sent.acquire(timeout=LIMIT_S)
    sender.close(30)
    assert told == ["notices: no answer; reported once, until it works again"] * 2


def test_a_dry_run_says_what_would_be_sent(make: Callable[..., Notifier], told: list[str]) -> None:
    sender = make(f"json://user:{SECRET}@127.0.0.1/", dry_run=True)
    sender.note(lost())
    sender.close(30)
    assert len(told) == 1
    assert told[0].startswith("notices: would tell json://…: ")
    assert SECRET not in told[0]
