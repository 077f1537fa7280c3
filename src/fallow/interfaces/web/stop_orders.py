"""What persons have asked the page to stop: looked at first, shown, and done only when they agree.

looking    `fallow stop --dry-run` runs as the person
planned    they read what would be stopped, and how; nothing has been touched
stopping   they agreed, once: exactly the processes that were shown are stopped
done       what came of it, or why nothing was done
"""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from threading import Thread

from fallow.core.account import Account
from fallow.core.ports import Clock
from fallow.engine.stop.for_person import StopAnswer, StopsForPersons
from fallow.interfaces.web.caller import Refused

_AT_ONCE = 4
_MOST_OF_ONE = 8
_PLAN_LASTS_S = 600.0
_KEPT_S = 3600.0


class Stage(StrEnum):
    """How far an order has come."""

    LOOKING = "looking"
    PLANNED = "planned"
    STOPPING = "stopping"
    DONE = "done"


class StopOrder:
    """One order of a person."""

    def __init__(self, who: Account, what: str, made_s: float) -> None:
        self.id = secrets.token_urlsafe(16)
        self.who = who
        self.what = what
        """What is to be stopped, for people."""
        self.asked = ""
        """The same as a subject, as the person wrote it."""
        self.stage = Stage.LOOKING
        self.made_s = made_s
        self.answer = StopAnswer()
        self.is_dry_run = False

    @property
    def is_under_way(self) -> bool:
        """Return whether something is being done for it now."""
        return self.stage in (Stage.LOOKING, Stage.STOPPING)


class StopOrders:
    """The orders of all persons. Call all methods in the event loop of the server."""

    def __init__(self, stops: StopsForPersons, clock: Clock) -> None:
        self._stops = stops
        self._clock = clock
        self._orders: dict[str, StopOrder] = {}

    def begin(self, who: Account, what: str, subjects: Sequence[str]) -> StopOrder:
        """Look at what a person means; raise Refused while their last order is under way."""
        self._forget_old(who)
        if any(each.is_under_way for each in self._of(who)):
            raise Refused(429, "busy", "your last stop is still under way; wait until it is over")
        if sum(each.is_under_way for each in self._orders.values()) >= _AT_ONCE:
            raise Refused(503, "busy", "several people are stopping jobs now; try again in a moment")
        order = StopOrder(who, what, self._clock.monotonic_s())
        self._orders[order.id] = order
        self._do(order, Stage.PLANNED, lambda: self._stops.look(who, subjects))
        return order

    def find(self, who: Account, number: str) -> StopOrder:
        """Return an order of this person; raise Refused if there is none: those of others are not told."""
        found = self._orders.get(number)
        if found is None or found.who != who:
            raise Refused(404, "usage", "there is no such stop, or it was long ago")
        return found

    def agree(self, order: StopOrder, *, dry_run: bool) -> None:
        """Stop what was shown. Who agrees twice stops nothing more."""
        if order.stage is not Stage.PLANNED:
            return
        if not order.answer.ready:
            raise Refused(409, "usage", "there is nothing here that could be stopped")
        if self._clock.monotonic_s() - order.made_s > _PLAN_LASTS_S:
            raise Refused(409, "usage", "this was looked at more than 10 minutes ago; look again before you stop it")
        ready = order.answer.ready
        order.stage, order.is_dry_run = Stage.STOPPING, dry_run
        self._do(order, Stage.DONE, lambda: self._stops.stop(order.who, ready, dry_run=dry_run))

    def _do(self, order: StopOrder, then: Stage, work: Callable[[], StopAnswer]) -> None:
        loop = asyncio.get_running_loop()

        def settle(answer: StopAnswer) -> None:
            order.answer, order.stage = answer, Stage.DONE if answer.refused else then

        def run() -> None:
            try:
                answer = work()
            except Exception as error:  # noqa: BLE001  the person gets a sentence, whatever happened
                answer = StopAnswer(refused=f"internal error: {type(error).__name__}: {error}")
            with suppress(RuntimeError):  # the daemon has ended meanwhile
                loop.call_soon_threadsafe(settle, answer)

        try:
            Thread(target=run, name="fallow-stop", daemon=True).start()  # the end of the daemon waits for none
        except RuntimeError:
            settle(StopAnswer(refused="the system has no thread left for this; try again"))

    def _of(self, who: Account) -> list[StopOrder]:
        return [each for each in self._orders.values() if each.who == who]

    def _forget_old(self, who: Account) -> None:
        """Forget orders that were long ago, and the oldest of one person who has many."""
        now_s = self._clock.monotonic_s()
        over = [each for each in self._of(who) if not each.is_under_way]
        old = [each for each in self._orders.values() if now_s - each.made_s > _KEPT_S and not each.is_under_way]
        for each in (*over[: max(0, len(over) + 1 - _MOST_OF_ONE)], *old):
            self._orders.pop(each.id, None)
