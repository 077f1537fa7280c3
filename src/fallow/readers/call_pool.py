"""Make calls that may never return, so that a call that hangs costs only its own result.

A driver that hangs does not return, and a thread inside it cannot be interrupted. So each card has a thread of its
own, which announces each step of a call before it takes it. When a step has taken its limit, the caller goes on
without the result. The thread is left alone: it does not keep the program from ending. Until it returns,
its card gets no other call.
"""

import signal
from _thread import allocate_lock, start_new_thread  # `threading` takes longer to load, and to start a thread
from collections.abc import Callable, Hashable, Sequence

from fallow.core.annotations import Protocol

_SLOW_S = 0.05  # calls are made one after the other, since threads at once wait for each other; unless one is slow


class AboutTo(Protocol):
    """Announces each step of a call, with its name and how many times the usual limit it may take."""

    def __call__(self, step: str, takes: float = 1.0) -> None:
        """Announce a step."""


class Call(Protocol):
    """A piece of work that keeps its own results."""

    @property
    def key(self) -> Hashable:
        """Return what the call is about: each key has a thread."""

    def run(self, about_to: AboutTo) -> None:
        """Do the work, and announce each step to `about_to` before it is taken."""


class _CallThread:
    """A thread that makes one call at a time."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._now = monotonic_s
        self._call: Call | None = None
        self._given, self._returned = allocate_lock(), allocate_lock()
        self._given.acquire()
        self.is_busy = False
        self.step = ""
        self.error: Exception | None = None
        start_new_thread(self._work, ())

    def give(self, call: Call | None) -> None:
        """Begin the call; None ends the thread."""
        self._call, self.error = call, None
        self.is_busy = True
        self._about_to("the first call")
        self._returned.acquire(blocking=False)
        self._given.release()

    def wait_a_moment(self) -> None:
        """Wait until the call has returned, unless it is slow."""
        self._returned.acquire(timeout=_SLOW_S)

    def wait(self, limit_s: float) -> bool:
        """Return whether the call has returned before a step of it took longer than the limit."""
        while self.is_busy:
            left_s = limit_s * self._takes - (self._now() - self._since_s)
            if left_s <= 0:
                return False
            self._returned.acquire(timeout=left_s)
        return True

    def _about_to(self, step: str, takes: float = 1.0) -> None:
        self.step, self._takes, self._since_s = step, takes, self._now()

    def _work(self) -> None:
        # The main thread handles signals; one that arrived in a thread that hangs would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while self._given.acquire() and self._call is not None:
            try:
                self._call.run(self._about_to)
            except Exception as error:  # noqa: BLE001  raised again in the thread of the caller
                self.error = error
            self.is_busy = False
            if self._returned.locked():
                self._returned.release()


class CallPool:
    """Makes calls, and stops waiting for those that do not return in time."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._now = monotonic_s
        self._lock = allocate_lock()
        self._threads: dict[Hashable, _CallThread] = {}

    def make(self, calls: Sequence[Call], limit_s: float) -> dict[Hashable, str]:
        """Make all calls; return, by key, the step in which each call hangs that has not returned."""
        with self._lock:
            return self._make(calls, limit_s)

    def _make(self, calls: Sequence[Call], limit_s: float) -> dict[Hashable, str]:
        hung = {call.key: self._threads[call.key].step for call in calls if self._is_busy(call.key)}
        begun: list[tuple[Hashable, _CallThread]] = []
        for call in calls:
            if call.key in hung:
                continue
            if call.key not in self._threads:
                self._threads[call.key] = _CallThread(self._now)
            thread = self._threads[call.key]
            thread.give(call)
            thread.wait_a_moment()
            begun.append((call.key, thread))
        for key, thread in begun:
            if not thread.wait(limit_s):
                hung[key] = thread.step
            elif thread.error is not None:
                raise thread.error
        return hung

    @property
    def has_hung_call(self) -> bool:
        """Return whether a thread is inside a call."""
        return any(map(self._is_busy, self._threads))

    def close(self) -> None:
        """End the threads; one that is inside a call stays until the program ends."""
        for key, thread in self._threads.items():
            if not self._is_busy(key):
                thread.give(None)
        self._threads.clear()

    def _is_busy(self, key: Hashable) -> bool:
        return key in self._threads and self._threads[key].is_busy
