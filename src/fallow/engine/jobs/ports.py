"""The ports of WarnAskKill: where jobs come from, what can be done to one, and who parks it.

The processes of this machine are the first source and the first actions (see foreground.py for the job that
`fallow run` started, and engine/idle_rules for the jobs of other people). An owner that can be asked wraps the
actions on its processes (engine/owners/actions.py); a cluster is another source with actions of its own.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from fallow.core.actions import Ask, CancelWarning, Kill, Warn
from fallow.core.findings import Outcome
from fallow.core.gpu import Snapshot
from fallow.core.job import Job
from fallow.core.protections import AffectedProcess
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.jobs.before_ask import BeforeAsk, Step, done


class JobSource(Protocol):
    """Finds the jobs that hold GPUs."""

    def jobs(self, snapshot: Snapshot) -> Sequence[Job]:
        """Return the jobs that hold GPUs now."""


class JobCondition(Protocol):
    """Something besides its GPUs that shows whether one job is in use. Looked at while the job is idle on them."""

    text: str
    """How a person wrote it."""

    def __call__(self, job: Job) -> Reason | Unknown | None:
        """Return why the job is in use, Unknown if it cannot be told, or None. Never waits, and never raises."""


BeginConditions = Callable[[], Sequence[JobCondition]]
"""Makes the conditions of one job: rates are compared with what was seen of the same job before."""


class JobActions(Protocol):
    """Acts on one job as it was when this was made: processes that join it later are not touched."""

    def describe(self) -> tuple[AffectedProcess, ...]:
        """Return every process that an action would touch now. It may be thousands, so not at every tick."""

    def find(self, pid: int) -> AffectedProcess | None:
        """Return the process of that pid if an action would touch it, else None. Cheap, whatever the job is."""

    def forbidden(self, processes: Sequence[AffectedProcess]) -> Reason | None:
        """Return why one of these processes of the job must not be touched, or None."""

    def way(self, action: Ask | Kill) -> str:
        """Return what the action does, after "would": a dry run says it."""

    def warn(self, action: Warn) -> Outcome | None:
        """Warn the people of the job; return None if the report of the run reaches them already."""

    def warn_by_signal(self, name: str, pids: Collection[int]) -> Outcome:
        """Send the signal to those of these processes that catch it, so that they can save their work."""

    def cancel(self, action: CancelWarning) -> None:
        """Tell the people of the job that the warning is cancelled."""

    def before_ask(self, wanted: BeforeAsk, variables: Mapping[str, str]) -> Sequence[Step]:
        """Return the steps that must be over before the job is asked; a command gets the variables."""

    def ask(self, action: Ask) -> Outcome:
        """Send the polite signal."""

    def kill(self, action: Kill) -> Outcome:
        """Kill what is left."""

    def survivors(self) -> str:
        """Kill what is left once more, and name it; empty if nothing is left."""

    def is_gone(self, job: Job | None) -> str | None:
        """Return how the job left its GPUs, or None while it is there. `job` is the job as it was found last."""


ActionsFor = Callable[[Job], JobActions]


@value
class ParkResult:
    """What came of parking a job, and why in words."""

    parked: bool
    words: str
    in_doubt: bool = False
    """Whether it is not known if it is parked: then nothing follows."""


class Parker(Protocol):
    """Parks jobs, beside the loop: their memory leaves the GPUs, their processes stay."""

    def why_not(self, job: Job, processes: Sequence[AffectedProcess]) -> str | None:
        """Return why a job with these processes cannot be parked, as far as that is known before it is tried."""

    def begin(self, job: Job, processes: Sequence[AffectedProcess]) -> None:
        """Begin to park a job with these processes."""

    def is_under_way(self, job: Job) -> bool:
        """Return whether the job is on its way off its GPUs."""

    def result(self, job: Job) -> ParkResult | None:
        """Return what came of it, once: parked, or why not; None if nothing did yet."""


class DryRunJobActions:
    """Reads what the real actions read, and says what they would do."""

    def __init__(self, real: JobActions) -> None:
        self.describe = real.describe
        self.find = real.find
        self.forbidden = real.forbidden
        self.is_gone = real.is_gone
        self.way = real.way
        self._before_ask = real.before_ask

    def warn(self, _: Warn) -> Outcome | None:
        """Do nothing: the report of the run says it."""
        return None

    def warn_by_signal(self, name: str, pids: Collection[int]) -> Outcome:  # noqa: ARG002  as the port has it
        """Say what would be sent."""
        return Outcome(True, f"would send SIG{name} to those of its processes on GPUs that catch it")

    def cancel(self, _: CancelWarning) -> None:
        """Do nothing."""

    def before_ask(self, wanted: BeforeAsk, variables: Mapping[str, str]) -> Sequence[Step]:
        """Return steps that only say what they would do."""
        return [_only_said(step) for step in self._before_ask(wanted, variables)]

    def ask(self, action: Ask) -> Outcome:
        """Say what would be sent."""
        return Outcome(True, f"would {self.way(action)}")

    def kill(self, action: Kill) -> Outcome:
        """Say what would be killed."""
        return Outcome(True, f"would {self.way(action)}")

    def survivors(self) -> str:
        """Return nothing: no process was killed."""
        return ""


def _only_said(step: Step) -> Step:
    return Step(step.words, lambda: done(Outcome(True, f"would {step.words}")))
