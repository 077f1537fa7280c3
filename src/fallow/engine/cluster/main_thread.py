"""What the cluster's thread wants said, counted and sent: the daemon's main thread does it, at its next tick.

Only the main thread may use the notices and the counters. The journal takes rows from any thread.
"""

from collections import deque
from collections.abc import Sequence

from fallow.core.notices import Notice
from fallow.core.value import value
from fallow.engine.history.run import Run

_MOST = 10_000
_MOST_A_TURN = 200


@value
class _Sentence:
    """A sentence for the person who runs the daemon."""

    text: str


@value
class _Count:
    """An action to be counted, by its kind and its result."""

    kind: str
    result: str


@value
class _Notice:
    """A notice, and what it is about in the journal, where it is written how the person is told."""

    notice: Notice
    subject: str
    keys: tuple[str, ...]


class MainThread:
    """A queue of limited length. Any thread may add to it; `turn` is called by the main thread."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: deque[_Sentence | _Count | _Notice] = deque(maxlen=_MOST)

    def say(self, sentence: str) -> None:
        """Have a sentence reported."""
        self._waiting.append(_Sentence(sentence))

    def count(self, kind: str, result: str) -> None:
        """Have an action counted."""
        self._waiting.append(_Count(kind, result))

    def notify(self, notice: Notice, subject: str, keys: Sequence[str]) -> None:
        """Have a notice sent, and have it written to the journal how its person is told."""
        self._waiting.append(_Notice(notice, subject, tuple(keys)))

    def turn(self) -> None:
        """Do some of what waits: a tick is short, whatever the cluster does."""
        report = self._run.report
        for _ in range(_MOST_A_TURN):
            if not self._waiting:
                return
            match self._waiting.popleft():
                case _Sentence(text):
                    report.say(text)
                case _Count(kind, result):
                    report.tally.action(kind, result)
                case _Notice(notice, subject, keys):
                    words = report.notify(notice)
                    if words:
                        self._run.journal.outcome(subject, f"notice: {notice.event}", words, keys)
