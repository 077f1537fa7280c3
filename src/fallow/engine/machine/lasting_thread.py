"""A thread that lasts: one whose work fails says so, and begins again.

A thread that ends by an exception ends in silence, and whatever hangs on it waits for ever.
"""

from collections.abc import Callable
from threading import Event, Thread

_PAUSE_S = 1.0


def steady(name: str, work: Callable[[], None], tell: Callable[[str], None], pause_s: float = _PAUSE_S) -> Thread:
    """Do this in a thread, until it returns. What it fails with is told, and after a pause it is done again.

    `work` goes on where it was: its state is not the thread's. A daemon thread: work that hangs must not keep the
    program from ending.
    """

    def run() -> None:
        told = ""
        while True:
            try:
                work()
            except BaseException as error:  # noqa: BLE001  that is what it is for
                sentence = f"{name}: internal error ({type(error).__name__}: {error}); it goes on"
                if sentence != told:
                    told = sentence
                    tell(sentence)
                Event().wait(pause_s)
            else:
                return

    thread = Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
