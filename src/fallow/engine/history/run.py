"""The context that every capability runs in: this machine, the journal, its report, and whether it is a dry run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fallow.core.notices import Notice
from fallow.core.value import value
from fallow.engine.history.counters import Tally
from fallow.engine.history.journal import Journal, open_journal
from fallow.engine.machine.world import World


class Report:
    """What a capability reports while it runs: sentences, counts for the metrics, and notices."""

    def __init__(
        self,
        say: Callable[[str], None],
        tally: Tally | None = None,
        notify: Callable[[Notice], str] = lambda _: "",
    ) -> None:
        """`notify` sends a notice, and returns how the person whom it is about is told; empty if nobody is."""
        self.say = say
        self.tally = Tally() if tally is None else tally
        self.notify = notify

    def prefixed(self, prefix: str) -> "Report":
        """Return the same report, with these words before each sentence."""
        return Report(lambda sentence: self.say(f"{prefix}{sentence}"), self.tally, self.notify)


@value
class Run:
    """One run of a capability. In a dry run nothing is done: the actuators only say what they would do."""

    world: World
    journal: Journal
    report: Report
    dry_run: bool = False

    @property
    def say(self) -> Callable[[str], None]:
        """Return the function that reports one sentence to the user."""
        return self.report.say


@contextmanager
def open_run(world: World, say: Callable[[str], None], *, dry_run: bool = False) -> Iterator[Run]:
    """Open the journal for one run, and close it afterwards."""
    journal = open_journal(world, say)
    try:
        yield Run(world, journal, Report(say), dry_run)
    finally:
        journal.close()
