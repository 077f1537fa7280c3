"""Stop a job that holds GPUs without using them.

A job begins WARMING, in which nothing counts. Then it is on the ladder of `policies/ladder.py`, with idleness as the
fault.

    WARMING  warmup_s were witnessed                                  -> CALM
    CALM     idle for timeout_s less the notice                       -> WARNED  Warn
    WARNED   idle for timeout_s                                       -> ASKED   Ask
    WARNED   busy                                                     -> CALM    CancelWarning
    WARNED   when is "wanted", and nobody waits for its GPUs          -> CALM    CancelWarning
    WARNED   its timeout has become longer than the warning said      -> CALM    CancelWarning
    WARNED   a protection applies                                     -> CALM    CancelWarning
    ASKED    a protection applies                                     -> CALM    CancelWarning
    ASKED    grace_s were witnessed                                   -> KILLED  Kill

The notice is a minute, or half of a timeout below two minutes. Every second is a witnessed one. Work resets the idle
time to zero. An unknown reading counts zero for warm-up and idle time and resets neither. A gap between two looks
counts zero everywhere, in the grace too.

A finding may say that idleness is believed only after some time, since other work may have hidden the job's. Then the
longest such time since the job last worked is its timeout, if that is longer than the rule's.

When is "always" or "wanted". With "wanted" the idle time counts as ever, and a warning begins, and its time passes,
only while a launch waits for one of the GPUs. If the queue cannot be read, nothing begins, and a warning stays as it
is. Such a warning mostly comes after the timeout, so it always gives the full notice. An empty queue takes back
nothing from a job that was asked.
"""

from enum import StrEnum

from fallow.core.actions import JobAction
from fallow.core.job import JobActivity, JobFinding
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.core.witnessed_time import witnessed_s
from fallow.policies.ladder import Ladder, LadderRules, Sign, climb

_SIGNS = {JobActivity.IDLE: Sign.FAULT, JobActivity.BUSY: Sign.FINE, JobActivity.UNKNOWN: Sign.UNKNOWN}


class When(StrEnum):
    """When a job that is idle for too long is warned and asked."""

    ALWAYS = "always"
    WANTED = "wanted"
    """Only while a launch waits for one of its GPUs."""


@value
class IdleRules(LadderRules):
    """How long a job may be idle, and how it is warned and asked."""

    fault = "idle"

    warmup_s: float = 60.0
    when: When = When.ALWAYS

    @property
    def is_mostly_late(self) -> bool:
        """Return whether warnings wait for a launch, which mostly comes after the timeout."""
        return self.when is When.WANTED


@value
class State:
    """The state of one job. With the time of its launch, the first tick counts the time since then."""

    at_s: float | None = None
    warmed_s: float = 0.0
    ladder: Ladder = Ladder()
    believed_after_s: float = 0.0
    """The longest time, since the job last worked, after which a finding was to be believed."""

    def patient(self, rules: IdleRules) -> IdleRules:
        """Return the rules, with no shorter timeout than that."""
        return rules.allowing(self.believed_after_s)

    @property
    def idle_s(self) -> float:
        """Return the witnessed seconds of idleness since the job last worked."""
        return self.ladder.fault_s


@value
class Decision:
    """The state after a tick, and what is to be done."""

    state: State
    actions: tuple[JobAction, ...] = ()


def step(
    state: State,
    at_s: float,
    finding: JobFinding,
    rules: IdleRules,
    leave_alone: Reason | None = None,
    waits: Reason | Unknown | None = None,
) -> Decision:
    """Return the decision of one tick. `leave_alone` is why the job must be left alone, if it must.

    `waits` says who waits for its GPUs: None if nobody does, Unknown if that cannot be read.
    """
    passed_s = witnessed_s(state.at_s, at_s, rules.longest_gap_s)
    cold_s = max(0.0, rules.warmup_s - state.warmed_s)
    seen_s = 0.0 if finding.activity is JobActivity.UNKNOWN else passed_s
    warmed_s = min(rules.warmup_s, state.warmed_s + seen_s)
    is_busy = finding.activity is JobActivity.BUSY
    believed_after_s = 0.0 if is_busy else max(state.believed_after_s, finding.believed_after_s)
    after = State(at_s, warmed_s, state.ladder, believed_after_s)
    if warmed_s < rules.warmup_s:
        return Decision(after)
    # The tick in which the warm-up ends counts with what is left of it.
    counts_s = max(0.0, passed_s - cold_s)
    found = finding.reason
    if finding.activity is JobActivity.IDLE and isinstance(waits, Reason):
        found = Reason("idle_and_wanted", readings=found, waits=waits)
    held_back = held_back_by(rules, waits)
    sign, patient = _SIGNS[finding.activity], after.patient(rules)
    ladder, actions = climb(state.ladder, counts_s, sign, found, patient, leave_alone, held_back)
    return Decision(replace(after, ladder=ladder), actions)


def held_back_by(rules: IdleRules, waits: Reason | Unknown | None) -> Reason | Unknown | None:
    """Return why nothing begins although the job is idle, or None."""
    if rules.when is When.ALWAYS or isinstance(waits, Reason):
        return None
    return Reason("nobody_waits") if waits is None else waits
