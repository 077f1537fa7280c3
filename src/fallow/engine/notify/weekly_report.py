"""Sends the report of the last week at a time of the week, once for each week.

    never asked   the first time that is seen: it is noted, and nothing is sent for the week before
    due           its time has come, also if the daemon was off then: it is noted as begun, then sent
    begun         if the daemon ends now, nobody knows whether it was sent; it is not sent twice, and that is said
    sent          at least one address took it: those that did not are named, and nothing follows until the next week
    failed        no address took it: it is tried again after 10 minutes, then 20, up to 6 hours, until a newer week

A process of its own makes and sends it (`fallow report --mail`), so that neither the mail server nor the history of
many weeks delays the loop. What was done is kept in a file of the state folder.
"""

import json
import os
from datetime import UTC, datetime, tzinfo
from queue import Empty, SimpleQueue
from typing import NamedTuple

from fallow.actuators.files import state_folder
from fallow.actuators.files.atomic_file import replace_file
from fallow.actuators.process import spawn
from fallow.actuators.process.helpers import Helpers
from fallow.core.errors import FallowError, NotAllTold
from fallow.core.units import printable, shortened
from fallow.core.week_time import WeeklyTime
from fallow.engine.history.run import Run
from fallow.engine.machine.background import Background
from fallow.engine.machine.inherited_environment import without_gpus
from fallow.engine.machine.timezone import LocalZone

FILE_NAME = "weekly-report.json"
_EVERY_S = 10.0
_LIMIT_S = 180.0
_LEAVE_AFTER_S = 1.0
_AGAIN_S, _LONGEST_AGAIN_S = 600.0, 6 * 3600.0
_FAR_S = 8 * 86_400.0


class _Kept(NamedTuple):
    """The last week that is known of, by when it was due, and what became of it: begun, sent, noted or failed."""

    due_s: float
    became: str


class _Order(NamedTuple):
    """A report to send."""

    due_s: float
    since: str
    until: str


class WeeklyReport:
    """Watches the clock and has the report sent. Only the loop's thread may call its methods."""

    def __init__(self, run: Run, when: WeeklyTime | None, config: str | None, zone: tzinfo | None = None) -> None:
        """`config`: the file that names the addresses."""
        self._run = run
        self._when: WeeklyTime | None = None
        self._zone = LocalZone() if zone is None else zone
        self._looked_s: float | None = None
        self._not_before_s = 0.0
        self._pause_s = _AGAIN_S
        self._told_due_s: float | None = None
        self._kept: _Kept | None = None
        self._read = False
        self._outcomes: SimpleQueue[tuple[float, bool, str]] = SimpleQueue()
        self._helpers = Helpers(run.world.clock.monotonic_s)
        self._sending = Background[_Order](
            "weekly report", self._send, lambda sentence: self._outcomes.put((0.0, False, sentence)), _LEAVE_AFTER_S
        )
        self.change(when, config)

    def change(self, when: WeeklyTime | None, config: str | None) -> None:
        """Use another time, and the config that was found since; what is under way goes on."""
        named = {} if config is None else {"FALLOW_CONFIG": os.path.abspath(config)}
        self._environ = {**without_gpus(self._run.world.environ), **named}
        if when is not None:
            spawn.keep_the_ends_of_children()  # here, because only the main thread may
        self._when, self._looked_s, self._not_before_s = when, None, 0.0

    def turn(self) -> None:
        """Send the report if it is due, and tell what became of it; the loop calls this at each tick."""
        self._take_outcomes()
        clock = self._run.world.clock
        now_s = clock.monotonic_s()
        if self._when is None or (self._looked_s is not None and now_s - self._looked_s < _EVERY_S):
            return
        self._looked_s = now_s
        if not self._sending.is_idle or now_s < self._not_before_s:
            return
        self._look(self._when, clock.wall_s())

    def close(self) -> None:
        """Leave what is under way to itself; it is noted as begun."""
        self._sending.finish(_LEAVE_AFTER_S)
        self._take_outcomes()

    def _look(self, when: WeeklyTime, wall_s: float) -> None:
        due_s = when.last_s(wall_s, self._zone)
        kept = self._known(wall_s)
        if kept is None:
            if not self._run.dry_run:
                self._note(_Kept(due_s, "noted"))
            return
        if kept.due_s >= due_s and kept.became != "failed":
            if kept.became == "begun" and self._told_due_s != kept.due_s:
                self._told_due_s = kept.due_s
                self._run.say(
                    "weekly report: fallow ended while it was being sent, so it may be missing; "
                    "to send it, run: fallow report --mail"
                )
            return
        order = _Order(due_s, self._words(when.before_s(due_s, self._zone)), self._words(due_s))
        if self._run.dry_run:
            if self._told_due_s != due_s:
                self._told_due_s = due_s
                self._run.say(f"weekly report: would send the one from {order.since} to {order.until}")
            return
        trouble = self._note(_Kept(due_s, "begun"))
        if trouble is not None:
            self._failed(f"it is not sent, because that cannot be noted, and it could be sent twice: {trouble}")
            return
        self._told_due_s = due_s
        self._sending.give(order)

    def _known(self, wall_s: float) -> _Kept | None:
        """Return what was done last; None if nothing is known, or only of a time that is still to come."""
        if not self._read:
            self._kept, self._read = self._from_file(), True
        if self._kept is not None and self._kept.due_s > wall_s + _FAR_S:
            return None  # the clock was wrong then
        return self._kept

    def _from_file(self) -> _Kept | None:
        try:
            folder = state_folder.prepared(self._run.world.state_folder, make=False)
            with open(os.path.join(folder, FILE_NAME), encoding="utf-8") as file:
                facts = json.loads(file.read(1000))
            return _Kept(float(facts["due_s"]), str(facts["became"]))
        except (OSError, FallowError, ValueError, TypeError, KeyError):
            return None

    def _note(self, kept: _Kept) -> str | None:
        """Keep what was done; return why that is not possible, or None."""
        try:
            folder = state_folder.prepared(self._run.world.state_folder)
            replace_file(state_folder.private_file(folder, FILE_NAME), json.dumps(kept._asdict()))
        except (OSError, FallowError) as error:
            return str(error)
        self._kept = kept
        return None

    def _send(self, order: _Order) -> None:
        span = ["--since", order.since, "--until", order.until]
        try:
            ran = self._helpers.run([*spawn.OURSELVES, "report", "--mail", "--alone", *span], self._environ, _LIMIT_S)
        except FallowError as error:
            self._outcomes.put((order.due_s, False, str(error)))
            return
        if not ran.in_time:  # nobody knows whether it was sent, so it stays begun
            self._outcomes.put((0.0, False, f"weekly report: no answer in {_LIMIT_S:.0f} s; it may be missing"))
            return
        words = shortened(printable(ran.last_line.removeprefix("fallow: ")), 300)
        partly = ran.ended is not None and ran.ended.exit_code == NotAllTold.exit_code
        self._outcomes.put((order.due_s, ran.ok or partly, words))

    def _take_outcomes(self) -> None:
        while True:
            try:
                due_s, ok, words = self._outcomes.get_nowait()
            except Empty:
                return
            if ok:
                self._pause_s, self._not_before_s = _AGAIN_S, 0.0
                self._note(_Kept(due_s, "sent"))  # if not, it stays begun, and is not sent again either
                self._run.say(f"weekly report: {words}")
            elif due_s:
                self._note(_Kept(due_s, "failed"))
                self._failed(words)
            else:
                self._run.say(words)

    def _failed(self, why: str) -> None:
        """Report a failure, and try again later."""
        self._run.say(f"weekly report: {why}; it is tried again in {self._pause_s / 60:.0f} minutes")
        self._not_before_s = self._run.world.clock.monotonic_s() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_AGAIN_S)

    def _words(self, at_s: float) -> str:
        return f"{datetime.fromtimestamp(at_s, UTC).astimezone(self._zone):%Y-%m-%dT%H:%M}"
