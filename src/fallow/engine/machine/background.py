"""Do slow work in a thread beside a loop that must not wait, one thing after the other.

A thread that ends by an exception ends in silence, and what depends on it waits for ever. This one reports what
failed and goes on with the next thing.
"""

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Generic, TypeVar

_MOST = 1000  # of more things that wait the oldest are dropped

T = TypeVar("T")


class Background(Generic[T]):
    """Does `work` with each thing that it is given, in order. All methods may be called by any thread."""

    def __init__(self, name: str, work: Callable[[T], None], report: Callable[[str], None]) -> None:
        self._name = name
        self._work = work
        self._report = report
        self._waiting: deque[T] = deque(maxlen=_MOST)
        self._changed = Condition()
        self._is_busy = False
        self._is_closed = False
        self._reported = ""
        self._thread: Thread | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether everything that was given is done."""
        return not self._waiting and not self._is_busy

    def give(self, thing: T) -> None:
        """Queue a thing, and return at once. The thread starts with the first thing."""
        with self._changed:
            self._waiting.append(thing)
            self._changed.notify_all()
            if self._thread is None:
                # A daemon thread: work that hangs must not keep the program from ending.
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def finish(self, limit_s: float) -> bool:
        """Wait until everything is done, for so long at most; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_idle, limit_s)

    def close(self) -> None:
        """Let the thread end once everything is done, without waiting for that."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def end(self, limit_s: float) -> bool:
        """Finish and close; return whether everything was done in time."""
        done = self.finish(limit_s)
        self.close()
        return done

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if not self._waiting:
                    return
                thing, self._is_busy = self._waiting.popleft(), True
            try:
                self._work(thing)
            except BaseException as error:  # noqa: BLE001  reported, and the thread goes on
                sentence = f"{self._name}: internal error ({type(error).__name__}: {error}); it goes on"
                if sentence != self._reported:
                    self._reported = sentence
                    self._report(sentence)
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()


def do_once(name: str, work: Callable[[], None], report: Callable[[str], None]) -> None:
    """Do one thing in a thread of its own, and return at once."""
    thread = Background[None](name, lambda _: work(), report)
    thread.give(None)
    thread.close()
