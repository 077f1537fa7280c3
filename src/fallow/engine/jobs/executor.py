"""Run an action that may take long beside a loop that must not wait."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Protocol

from fallow.core.findings import Outcome


class Executor(Protocol):
    """Runs actions."""

    def submit(self, work: Callable[[], Outcome]) -> "Future[Outcome]":
        """Begin an action; return the future of its outcome, which is never an exception."""


class ThreadExecutor:
    """Runs each action in a thread of its own: one that never ends keeps no other from being done, nor our end."""

    def submit(self, work: Callable[[], Outcome]) -> "Future[Outcome]":
        """Begin an action; return the future of its outcome, which is never an exception."""
        future: Future[Outcome] = Future()
        Thread(target=lambda: future.set_result(outcome_of(work)), name="fallow-acts", daemon=True).start()
        return future


def outcome_of(work: Callable[[], Outcome]) -> Outcome:
    """Do it, and return its outcome; an action that breaks has failed."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001  whatever it was, the guard goes on
        return Outcome(False, f"it failed with {type(error).__name__}: {error}")
