"""Calls that may never return, made where that costs nothing but themselves.

A driver that hangs does not come back, and a thread inside it cannot be interrupted. So errands run on a
worker thread and say each call they are about to make. One worker runs them all while all goes well. When a
call has taken `stall_s`, a second worker takes over the errands that wait; when it has taken its limit, its
errand is given up and the thread left to its fate: it is a daemon, so the program still ends when told to.
While a thread is still inside the driver for a key, no other errand with that key sets out. The worker waits for the
next errands: to start a thread takes longer than to read a card.
"""

import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol


class AboutTo(Protocol):
    """Told before each call: its name, and how many times the usual limit it may take."""

    def __call__(self, call: str, takes: float = 1.0) -> None:
        """About to make that call."""


class Call(Protocol):
    """A piece of work that keeps its own results."""

    @property
    def key(self) -> Hashable:
        """What it is about: two errands with one key never run at once."""

    def run(self, about_to: "AboutTo") -> None:
        """Do it, and name every call to `about_to` before it is made."""


class _Running:
    """One errand: what it is doing, and since when."""

    __slots__ = ("doing", "done", "errand", "error", "since_s", "takes")

    def __init__(self, errand: Call) -> None:
        self.errand = errand
        self.doing = "the first call"
        self.since_s: float | None = None
        self.takes = 1.0
        self.done = False
        self.error: Exception | None = None

    def age_s(self, now_s: float) -> float:
        return 0.0 if self.since_s is None else now_s - self.since_s

    def left_s(self, now_s: float, limit_s: float) -> float:
        return limit_s * self.takes - self.age_s(now_s)


class CallPool:
    """Runs errands, and gives up those that do not come back."""

    def __init__(self, monotonic_s: Callable[[], float], stall_s: float = 0.05) -> None:
        self._now = monotonic_s
        self._stall_s = stall_s
        lock = threading.Lock()
        self._news = threading.Condition(lock)
        self._work_there = threading.Condition(lock)
        self._todo: deque[_Running] = deque()
        self._idle_workers = 0
        self._dismissed = False
        self._away: dict[Hashable, _Running] = {}

    def send(self, errands: Sequence[Call], limit_s: float) -> dict[Hashable, str]:
        """Run all; the answer names, by key, what each errand that is not back was doing."""
        with self._news:
            late = {key: trip.doing for key, trip in self._away.items()}
            trips = [_Running(errand) for errand in errands if errand.key not in late]
            self._todo.extend(trips)
            if trips:
                self._call_worker()
            under_way = trips
            while under_way:
                self._news.wait(self._patience_s(under_way, limit_s))
                now = self._now()
                under_way = [trip for trip in under_way if not trip.done]
                for trip in under_way:
                    if trip.left_s(now, limit_s) <= 0:
                        self._away[trip.errand.key] = trip
                        late[trip.errand.key] = trip.doing
                under_way = [trip for trip in under_way if trip.errand.key not in late]
                if self._todo and all(trip.age_s(now) >= self._stall_s for trip in trips if _running(trip)):
                    self._call_worker()
        for trip in trips:
            if trip.error is not None:
                raise trip.error
        keys = {errand.key for errand in errands}
        return {key: doing for key, doing in late.items() if key in keys}

    def all_back(self) -> bool:
        """Whether no thread is still inside the driver."""
        with self._news:
            return not self._away

    def dismiss(self) -> None:
        """Let the workers go; one that is still inside the driver goes when it comes back."""
        with self._news:
            self._dismissed = True
            self._work_there.notify_all()

    def _patience_s(self, under_way: Sequence[_Running], limit_s: float) -> float:
        if self._todo:
            return self._stall_s
        now = self._now()
        return max(0.001, min(trip.left_s(now, limit_s) for trip in under_way))

    def _call_worker(self) -> None:
        if self._idle_workers:
            self._work_there.notify()
        else:
            threading.Thread(target=self._work, name="fallow-driver", daemon=True).start()

    def _work(self) -> None:
        # Signals are for those who handle them; one that landed in a thread that hangs would be lost or worse.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (trip := self._next()) is not None:
            self._go(trip)
            with self._news:
                trip.done = True
                self._away.pop(trip.errand.key, None)

    def _next(self) -> _Running | None:
        """The next errand; None when this worker is not needed any more."""
        with self._news:
            while not self._todo:
                self._news.notify_all()
                if self._dismissed or self._idle_workers:
                    return None  # one who waits is enough
                self._idle_workers += 1
                self._work_there.wait()
                self._idle_workers -= 1
            trip = self._todo.popleft()
            trip.since_s = self._now()
            return trip

    def _go(self, trip: _Running) -> None:
        def about_to(call: str, takes: float = 1.0) -> None:
            trip.doing, trip.takes = call, takes
            trip.since_s = self._now()

        try:
            trip.errand.run(about_to)
        except Exception as error:  # noqa: BLE001  raised again where the errand was sent from
            trip.error = error


def _running(trip: _Running) -> bool:
    return trip.since_s is not None and not trip.done
