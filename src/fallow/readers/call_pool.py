"""Make calls that may never return, so that a call that hangs costs only its own result.

A driver that hangs does not return, and a thread inside it cannot be interrupted. So calls run on a worker thread
and announce each step before they take it. One worker runs them all while nothing hangs. When a step has taken
`stall_s`, a second worker takes over the calls that wait. When it has taken its limit, the call is given up and its
thread is left alone: it is a daemon thread, so the program can still end. While a thread is inside
the driver for a key, no other call with that key starts. The worker waits for the next calls, because starting a
thread takes longer than reading a GPU.
"""

import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol


class AboutTo(Protocol):
    """Announces each step of a call, with its name and how many times the usual limit it may take."""

    def __call__(self, call: str, takes: float = 1.0) -> None:
        """Announce a step."""


class Call(Protocol):
    """A piece of work that keeps its own results."""

    @property
    def key(self) -> Hashable:
        """Return what the call is about: two calls with one key never run at once."""

    def run(self, about_to: "AboutTo") -> None:
        """Do the work, and announce each step to `about_to` before it is taken."""


class _Running:
    """One call: the step that it takes, and since when."""

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
    """Runs calls, and gives up those that do not return."""

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
        """Run all calls; return, by key, the step of each call that has not returned."""
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
        """Return whether no thread is inside the driver."""
        with self._news:
            return not self._away

    def dismiss(self) -> None:
        """End the workers; one that is inside the driver ends when it returns."""
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
        # The main thread handles signals; one that arrived in a thread that hangs would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (trip := self._next()) is not None:
            self._go(trip)
            with self._news:
                trip.done = True
                self._away.pop(trip.errand.key, None)

    def _next(self) -> _Running | None:
        """Return the next call; None when this worker is no longer needed."""
        with self._news:
            while not self._todo:
                self._news.notify_all()
                if self._dismissed or self._idle_workers:
                    return None  # one waiting worker is enough
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
        except Exception as error:  # noqa: BLE001  raised again in the calling thread
            trip.error = error


def _running(trip: _Running) -> bool:
    return trip.since_s is not None and not trip.done
