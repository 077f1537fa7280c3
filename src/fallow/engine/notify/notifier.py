"""Telling people elsewhere what happens here, beside a loop that waits for nobody.

Whoever notes something only puts it down. A thread groups what comes together and has it sent by a process of its
own, so a service that does not answer delays the next message and nothing else. That it fails is told once.
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
    """Hands that send messages."""

    @property
    def speaks(self) -> bool:
        """Whether what came of it is worth a word although it went well."""

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """Send it; what came of each address. Takes its time, and not for ever."""


class SystemNoticeSender:
    """Sends them, each from a process of its own."""

    speaks = False

    def __init__(self, world: World) -> None:
        spawn.keep_the_ends_of_children()  # here, because a thread may not
        self._world = world
        self._helpers = Helpers(world.clock.monotonic_s)

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """To all at the same time."""
        environ = without_gpus(self._world.environ)
        return notice_process.send(self._helpers, environ, urls, message.title, message.text)


class DryRunNoticeSender:
    """Says what would be sent."""

    speaks = True

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """Only say it."""
        hooks = DryRunHooks()
        return [hooks.notify(url, message.title, message.text) for url in urls]


class Notifier:
    """What happens, on its way to people. All but the thread is for the one who owns the loop."""

    def __init__(
        self,
        urls: Sequence[str],
        rules: GroupingRules,
        post: NoticeSender,
        monotonic_s: Callable[[], float],
        tell: Callable[[str], None],
        host: str,
    ) -> None:
        self._urls = urls
        self._rules = rules
        self._post = post
        self._now = monotonic_s
        self._tell = tell
        self._host = host
        self._box = Outbox()
        self._closing = False
        self._changed = Condition()
        self._came: SimpleQueue[list[Outcome]] = SimpleQueue()
        self._failing: set[int] = set()
        self._thread: Thread | None = None

    def note(self, notice: Notice) -> None:
        """Put it down, and come back at once."""
        if not self._urls:
            return
        with self._changed:
            self._box = grouping.note(self._box, notice, self._now(), self._rules)
            self._changed.notify()
        if self._thread is None:
            # What it fails with goes the way of all that came of messages: only the loop's thread may speak.
            self._thread = steady("notices", self._run, lambda told: self._came.put([Outcome(False, told)]))
        self.turn()

    def turn(self) -> None:
        """Say what came of messages: called at each tick, since only this thread may speak."""
        while True:
            try:
                outcomes = self._came.get_nowait()
            except Empty:
                return
            for number, outcome in enumerate(outcomes):
                if outcome.ok:
                    self._failing.discard(number)
                    if self._post.speaks:
                        self._tell(f"notices: {outcome.words}")
                elif number not in self._failing:
                    self._failing.add(number)
                    self._tell(f"notices: {outcome.words}; told once, until it works again")

    def close(self, limit_s: float = _LEAVE_AFTER_S) -> None:
        """Send what waits at once, and wait for that so long at most."""
        if self._thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(limit_s)
        self.turn()
        if self._thread.is_alive():
            self._tell("notices: the last could not be sent in time")

    def _run(self) -> None:
        while (message := self._next()) is not None:
            self._came.put(self._post.send(self._urls, message))

    def _next(self) -> Message | None:
        """The next message, when it is due; None if we are to leave and none waits."""
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
    """Return what sends the notices of this machine; in a dry run it only says what it would send."""
    sender: NoticeSender = DryRunNoticeSender() if run.dry_run else SystemNoticeSender(run.world)
    return Notifier(urls, rules, sender, run.world.clock.monotonic_s, run.say, os.uname().nodename)
