"""Do slow work in a thread beside a loop that must not wait, one thing after the other.

A thread that ends by an exception ends in silence, and what depends on it waits for ever. This one reports what
failed and goes on with the next thing.
"""

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Does `work` with each thing that it is given, in order. All methods may be called by any thread."""

    def __init__(
        self, name: str, work: Callable[[T], None], report: Callable[[str], None], deadline_s: float, most: int = 1000
    ) -> None:
        """`deadline_s`: how long `finish` waits at most. Of more things than `most` the oldest are dropped."""
        self._name = name
        self._work = work
        self._report = report
        self._deadline_s = deadline_s
        self._waiting: deque[T] = deque(maxlen=most)
        self._changed = Condition()
        self._busy = False
        self._ending = False
        self._last = False
        self._reported = ""
        self._thread: Thread | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether everything that was given is done."""
        return not self._waiting and not self._busy

    def give(self, thing: T) -> None:
        """Queue a thing, and return at once. The thread starts with the first thing."""
        with self._changed:
            if self._thread is None:
                self._start()
            self._waiting.append(thing)
            self._changed.notify_all()

    def give_last(self, thing: T) -> None:
        """Queue a thing, and let the thread end once it is done."""
        self._last = True
        self.give(thing)

    def finish(self, deadline_s: float | None = None) -> bool:
        """Wait until everything is done, for so long at most; return whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.is_idle, self._deadline_s if deadline_s is None else deadline_s
            )

    def end(self) -> bool:
        """Finish, and end the thread; return whether everything was done in time."""
        done = self.finish()
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if done and self._thread is not None:
            self._thread.join(self._deadline_s)
        return done

    def _start(self) -> None:
        # A daemon thread: work that hangs must not keep the program from ending.
        thread = Thread(target=self._run, name=self._name, daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending or self._last)
                if self._ending or not self._waiting:
                    return
                thing, self._busy = self._waiting.popleft(), True
            try:
                self._work(thing)
            except BaseException as error:  # noqa: BLE001  reported, and the thread goes on
                self._failed(error)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _failed(self, error: BaseException) -> None:
        sentence = f"{self._name}: internal error ({type(error).__name__}: {error}); it goes on"
        if sentence != self._reported:
            self._reported = sentence
            self._report(sentence)
