"""Sends notices to people elsewhere, without delaying the loop that the notices come from.

The loop only queues a notice. A thread groups notices that come together, and each message is sent by a process of
its own, so a service that does not answer delays the next message and nothing else. A failure is reported once.
"""

import os
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from fallow.actuators.host import notice
from fallow.actuators.host.hooks import DryRunHooks
from fallow.core.account import without_gpus
from fallow.core.findings import Outcome
from fallow.core.notices import Notice
from fallow.engine.history.run import Run
from fallow.engine.machine.background import Background
from fallow.engine.machine.world import World
from fallow.policies import grouping
from fallow.policies.grouping import GroupingRules, Message, Outbox

_LEAVE_AFTER_S = 3.0


class SystemNoticeSender:
    """Sends messages, each from a process of its own."""

    reports_success = False
    """Whether outcomes are reported to the user even if they are good."""

    def __init__(self, world: World) -> None:
        self._world = world

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """Send a message to all addresses at the same time."""
        environ = without_gpus(self._world.environ)
        return notice.send(environ, urls, message.title, message.text)


class DryRunNoticeSender:
    """Sends nothing; its outcomes say what would be sent."""

    reports_success = True

    def send(self, urls: Sequence[str], message: Message) -> list[Outcome]:
        """Return what would be sent to each address."""
        hooks = DryRunHooks()
        return [hooks.notify(url, message.title, message.text) for url in urls]


NoticeSender = SystemNoticeSender | DryRunNoticeSender


class Notifier:
    """Queues notices and sends them beside the loop. Its methods may be called from the loop's thread only."""

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
        self._outcomes: SimpleQueue[list[Outcome]] = SimpleQueue()
        self._failing: set[int] = set()
        # A failure of the thread is queued like an outcome: only the loop's thread may report.
        self._sending = Background(
            "notices", self._send, lambda sentence: self._outcomes.put([Outcome(False, sentence)])
        )

    def note(self, notice: Notice) -> None:
        """Queue a notice; return at once."""
        if self._urls:
            self._box = grouping.note(self._box, notice, self._now(), self._rules)
            self.turn()

    def turn(self) -> None:
        """Send what is due, and report the outcomes of messages; the loop calls this at each tick."""
        due_s = grouping.due_s(self._box, self._rules)
        if due_s is not None and due_s <= self._now() and self._sending.is_idle:
            self._give_next()
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
        """Send what waits at once, and wait for that so long at most."""
        in_time = self._sending.finish(limit_s)
        while in_time and self._give_next():
            in_time = self._sending.finish(limit_s)
        self.turn()
        if not in_time:
            self._say("notices: the last could not be sent in time")
        else:
            self._sending.close()

    def _give_next(self) -> bool:
        """Have the next message sent; return whether there is one."""
        if grouping.due_s(self._box, self._rules) is None:
            return False
        self._box, message = grouping.collect(self._box, self._now(), self._rules, self._host)
        if message is not None:
            self._sending.give(message)
        return message is not None

    def _send(self, message: Message) -> None:
        self._outcomes.put(self._sender.send(self._urls, message))


def notifier_for(run: Run, urls: Sequence[str], rules: GroupingRules) -> Notifier:
    """Return the notifier of this machine; in a dry run it only reports what it would send."""
    sender: NoticeSender = DryRunNoticeSender() if run.dry_run else SystemNoticeSender(run.world)
    return Notifier(urls, rules, sender, run.world.clock.monotonic_s, run.say, os.uname().nodename)
