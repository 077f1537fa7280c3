"""Sends notices to people elsewhere, without delaying the loop that the notices come from.

The loop only queues a notice. A thread groups notices that come together, and each message is sent by a process of
its own, so a service that does not answer delays the next message and nothing else. A failure is reported once.
"""

import os
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Condition, Thread
from typing import Protocol

from fallow.actuators.host import notice_process
from fallow.actuators.host.hooks import DryRunHooks
from fallow.actuators.process import spawn
from fallow.actuators.process.helpers import Helpers
from fallow.core.findings import Outcome
from fallow.core.notices import Notice
from fallow.engine.history.run import Run
from fallow.engine.machine.inherited_environment import without_gpus
from fallow.engine.machine.lasting_thread import steady
from fallow.engine.machine.world import World
from fallow.policies import grouping
from fallow.policies.grouping import GroupingRules, Message, Outbox

_LEAVE_AFTER_S = 3.0


class NoticeSender(Protocol):
    """Sends messages."""

    @property
    def reports_success(self) -> bool:
        """Return whether outcomes are reported to the user even if they are good."""

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """Send a message and return the outcome for each address. It may take seconds, but has a time limit."""


class SystemNoticeSender:
    """Sends messages, each from a process of its own."""

    reports_success = False

    def __init__(self, world: World) -> None:
        spawn.keep_the_ends_of_children()  # here, because only the main thread may
        self._world = world
        self._helpers = Helpers(world.clock.monotonic_s)

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """Send a message to all addresses at the same time."""
        environ = without_gpus(self._world.environ)
        return notice_process.send(self._helpers, environ, urls, message.title, message.text)


class DryRunNoticeSender:
    """Sends nothing; its outcomes say what would be sent."""

    reports_success = True

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """Return what would be sent to each address."""
        hooks = DryRunHooks()
        return [hooks.notify(url, message.title, message.text) for url in urls]


class Notifier:
    """Queues notices and sends them from a thread. Its methods may be called from the loop's thread only."""

    def __init__(
        self,
        urls: Sequence[str],
        rules: GroupingRules,
        sender: NoticeSender,
        monotonic_s: Callable[[], float],
        say: Callable[[str], None],
        host: str,
    ) -> None:
        self._urls = urls
        self._rules = rules
        self._sender = sender
        self._now = monotonic_s
        self._say = say
        self._host = host
        self._box = Outbox()
        self._closing = False
        self._changed = Condition()
        self._outcomes: SimpleQueue[list[Outcome]] = SimpleQueue()
        self._failing: set[int] = set()
        self._thread: Thread | None = None

    def note(self, notice: Notice) -> None:
        """Queue a notice; return at once."""
        if not self._urls:
            return
        with self._changed:
            self._box = grouping.note(self._box, notice, self._now(), self._rules)
            self._changed.notify()
        if self._thread is None:
            # A failure of the thread is queued like the outcomes of messages: only the loop's thread may report.
            self._thread = steady("notices", self._run, lambda why: self._outcomes.put([Outcome(False, why)]))
        self.turn()

    def turn(self) -> None:
        """Report the outcomes of messages. The loop calls this at each tick, since only its thread may report."""
        while True:
            try:
                outcomes = self._outcomes.get_nowait()
            except Empty:
                return
            for number, outcome in enumerate(outcomes):
                if outcome.ok:
                    self._failing.discard(number)
                    if self._sender.reports_success:
                        self._say(f"notices: {outcome.words}")
                elif number not in self._failing:
                    self._failing.add(number)
                    self._say(f"notices: {outcome.words}; reported once, until it works again")

    def close(self, limit_s: float = _LEAVE_AFTER_S) -> None:
        """Send what is queued at once, and wait for that for `limit_s` at most."""
        if self._thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(limit_s)
        self.turn()
        if self._thread.is_alive():
            self._say("notices: the last could not be sent in time")

    def _run(self) -> None:
        while (message := self._next()) is not None:
            self._outcomes.put(self._sender.send(self._urls, message))

    def _next(self) -> Message | None:
        """Wait for the next message and return it; None if the notifier is closing and the queue is empty."""
        with self._changed:
            while True:
                due_s = grouping.due_s(self._box, self._rules)
                if due_s is None and self._closing:
                    return None
                left_s = None if due_s is None else due_s - self._now()
                if left_s is not None and (left_s <= 0 or self._closing):
                    self._box, message = grouping.collect(self._box, self._now(), self._rules, self._host)
                    if message is not None:
                        return message
                else:
                    self._changed.wait(left_s)


def notifier_for(run: Run, urls: Sequence[str], rules: GroupingRules) -> Notifier:
    """Return the notifier of this machine; in a dry run it only reports what it would send."""
    sender: NoticeSender = DryRunNoticeSender() if run.dry_run else SystemNoticeSender(run.world)
    return Notifier(urls, rules, sender, run.world.clock.monotonic_s, run.say, os.uname().nodename)
