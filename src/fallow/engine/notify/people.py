"""Tells people what happens to their own jobs, each at an address that a template makes of their login name.

Each person has a group of notices that wait, and a limit of their own, so that one with many jobs keeps nobody else
from being told. A thread sends one message at a time; the loop never waits for it.
"""

import os
from collections.abc import Callable
from queue import Empty, SimpleQueue

from fallow.core.address_template import AddressTemplate, is_plain
from fallow.core.findings import Outcome
from fallow.core.notices import Notice
from fallow.core.units import printable, shortened
from fallow.core.value import replace, value
from fallow.engine.history.run import Run
from fallow.engine.machine.background import Background
from fallow.engine.notify.notifier import DryRunNoticeSender, NoticeSender, SystemNoticeSender
from fallow.policies import grouping
from fallow.policies.grouping import GroupingRules, Message, Outbox
from fallow.readers.accounts import account

EVENTS = frozenset({"warned", "goes_on", "stopped", "parked"})
_LEAVE_AFTER_S = 3.0
_FIRST_PERSON, _NOBODY = 1000, 65534
_LONGEST_NAME = 40


@value
class PeopleRules:
    """How people are told about their own jobs; nobody is without a template."""

    template: AddressTemplate | None = None
    grouping: GroupingRules = GroupingRules()
    system_users: bool = False
    """Whether root and system users are told too."""


class People:
    """Queues notices to people and sends them beside the loop. Only the loop's thread may call its methods."""

    def __init__(self, run: Run, rules: PeopleRules) -> None:
        self._rules = rules
        self._now: Callable[[], float] = run.world.clock.monotonic_s
        self._say = run.say
        self._dry_run = run.dry_run
        self._sender: NoticeSender = DryRunNoticeSender() if run.dry_run else SystemNoticeSender(run.world)
        self._host = os.uname().nodename
        self._boxes: dict[str, Outbox] = {}
        self._addresses: dict[str, str] = {}
        self._failing: set[str] = set()
        self._outcomes: SimpleQueue[tuple[str, Outcome]] = SimpleQueue()
        self._sending = Background[tuple[str, str, Message]](
            "notices to people",
            self._send,
            lambda sentence: self._outcomes.put(("people", Outcome(False, sentence))),
        )

    def note(self, notice: Notice) -> str:
        """Queue a notice for the person whom it is about; return how they are told, or why not, or nothing."""
        template, user = self._rules.template, notice.person
        if template is None or not user or notice.event not in EVENTS:
            return ""
        name = shortened(printable(user), _LONGEST_NAME)
        address = self._address(template, user)
        if isinstance(address, Outcome):
            return f"no notice to {name}: {address.words}"
        self._addresses[user] = address
        told = replace(notice, text=f"{notice.text}. {notice.advice}") if notice.advice else notice
        box = self._boxes.get(user, Outbox())
        self._boxes[user] = grouping.note(box, told, self._now(), self._rules.grouping)
        self.turn()
        return f"a notice {'would go' if self._dry_run else 'goes'} to {name} by {template.scheme}"

    def turn(self) -> None:
        """Send what is due, and report what failed; the loop calls this at each tick."""
        if self._sending.is_idle:
            self._give_next(self._now())
        while True:
            try:
                user, outcome = self._outcomes.get_nowait()
            except Empty:
                return
            self._report(user, outcome)

    def close(self, limit_s: float = _LEAVE_AFTER_S) -> None:
        """Send what waits at once, and wait for that so long at most."""
        until_s = self._now() + limit_s
        in_time = self._sending.finish(limit_s)
        while in_time and self._give_next(float("inf")):
            in_time = self._sending.finish(max(0.0, until_s - self._now()))
        self.turn()
        if in_time:
            self._sending.close()
        else:
            self._say("notices to people: the last could not be sent in time")

    def _address(self, template: AddressTemplate, user: str) -> str | Outcome:
        """Return the address of a user; a failed outcome if they have none."""
        if not is_plain(user):
            return Outcome(False, "that is no plain login name")
        found = account(user)
        if found is None:
            return Outcome(False, "the password database does not have them")
        if not self._rules.system_users and (found.uid < _FIRST_PERSON or found.uid == _NOBODY):
            return Outcome(False, "root and system users are not told")
        return template.address(user, found.uid)

    def _give_next(self, until_s: float) -> bool:
        """Have the first message sent that is due by then; return whether there is one."""
        rules = self._rules.grouping
        for user, box in list(self._boxes.items()):
            due_s = grouping.due_s(box, rules)
            if due_s is None or due_s > until_s:
                continue
            kept, message = grouping.collect(box, self._now(), rules, self._host)
            del self._boxes[user]
            self._boxes[user] = kept  # behind the others: whoever has many notices keeps nobody waiting
            if message is not None:
                self._sending.give((user, self._addresses[user], message))
                return True
        return False

    def _report(self, user: str, outcome: Outcome) -> None:
        if outcome.ok:
            self._failing.discard(user)
            if self._sender.reports_success:
                self._say(f"notices to {user}: {outcome.words}")
        elif user not in self._failing:
            self._failing.add(user)
            self._say(f"notices to {user}: {outcome.words}; reported once, until it works again")

    def _send(self, what: tuple[str, str, Message]) -> None:
        user, address, message = what
        for outcome in self._sender.send([address], message):
            self._outcomes.put((user, outcome))
