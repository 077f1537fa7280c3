"""What must be over before a job is asked to end: its Python stacks are written, and the command of the rule has run.

Each step runs beside the loop where it may take long, one after the other, and has a limit. A step that fails is
reported, and the job is asked all the same. If the job works again meanwhile, or is protected, nothing follows.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Thread

from fallow.core.findings import Outcome
from fallow.core.gpu import Snapshot
from fallow.core.job import Job
from fallow.core.reasons import Reason
from fallow.core.units import printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

Wait = Callable[[], Outcome | None]
"""Returns the outcome of a step, or None until it is over."""


@value
class Command:
    """A line of shell to run as the user of the job."""

    line: str
    limit_s: float
    as_root: bool = False
    """Whether it runs for jobs of root too, as root."""


@value
class BeforeAsk:
    """What a rule wants to be done before a job is asked to end."""

    stacks: bool = False
    command: Command | None = None


@value
class Step:
    """One thing to do: in words after "would", and how to begin it."""

    words: str
    begin: Callable[[], Wait]


class Steps:
    """The steps for one job, in order."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._left = deque(steps)
        self._running: tuple[Step, Wait] | None = None

    @property
    def is_over(self) -> bool:
        """Return whether all of them are over."""
        return not self._left and self._running is None

    def advance(self) -> Iterator[tuple[Step, Outcome | None]]:
        """Begin what is next. Yield each step when it begins, with None, and when it is over, with its outcome."""
        while not self.is_over:
            if self._running is None:
                step = self._left.popleft()
                yield step, None
                self._running = step, step.begin()
            step, wait = self._running
            outcome = wait()
            if outcome is None:
                return
            self._running = None
            yield step, outcome


class Beside:
    """Does work in a thread; over when that ends, or after a time, whatever the work waits for."""

    def __init__(
        self, name: str, work: Callable[[], Outcome], monotonic_s: Callable[[], float], limit_s: float
    ) -> None:
        self._now = monotonic_s
        self._until_s = monotonic_s() + limit_s
        self._outcome: Outcome | None = None

        def do() -> None:
            try:
                self._outcome = work()
            except Exception as error:  # noqa: BLE001  whatever breaks here, the job is asked all the same
                self._outcome = Outcome(False, f"{name} failed: {printable(str(error)) or type(error).__name__}")

        self._late = Outcome(False, f"{name} takes too long")
        try:
            Thread(target=do, name=f"fallow {name}", daemon=True).start()
        except RuntimeError:
            self._outcome = Outcome(False, f"{name} failed: the system has no thread left")

    def __call__(self) -> Outcome | None:
        """Return the outcome, or None until it is over."""
        return self._outcome or (self._late if self._now() >= self._until_s else None)


def done(outcome: Outcome) -> Wait:
    """Return what a step that is over already returns."""
    return lambda: outcome


def variables(job: Job, rule: str, reason: Reason, snapshot: Snapshot) -> dict[str, str]:
    """Return what a command before the stop is told in its environment; never as a part of its line."""
    found = (gpu.find_in(snapshot) for gpu in job.gpus)
    facts = {
        "FALLOW_PID": str(job.first.pid),
        "FALLOW_PIDS": ",".join(str(pid) for pid in sorted(process.pid for process in job.members)),
        "FALLOW_GPUS": ",".join(gpu.label for gpu in found if not isinstance(gpu, Unknown)),
        "FALLOW_UUIDS": ",".join(job.uuids),
        "FALLOW_RULE": rule,
        "FALLOW_BECAUSE": str(reason),
        "FALLOW_OWNER": job.owner.label,
    }
    return {name: printable(text) for name, text in facts.items()}
