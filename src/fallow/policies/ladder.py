"""Warn, ask, kill: the steps that every policy against a job takes, at most one in a tick.

    CALM    the fault was witnessed for warn_after_s                         -> WARNED  Warn
    WARNED  it was witnessed for timeout_s, least_notice_s of it warned      -> ASKED   Ask
    WARNED  the fault is over                                                -> CALM    CancelWarning
    WARNED  it is held back                                                  -> CALM    CancelWarning
    WARNED  its timeout has become longer than the warning said              -> CALM    CancelWarning
    WARNED  a protection applies                                             -> CALM    CancelWarning
    ASKED   a protection applies                                             -> CALM    CancelWarning
    ASKED   grace_s were witnessed                                           -> KILLED  Kill

A fault that is over starts again from zero. A tick with an unknown reading counts zero and changes nothing. After a
job was asked, only time and protections count: what it does on the GPU then may be saving its work.

A timeout that becomes longer takes the warning back. The fault goes on counting, and a new warning comes in its time.

While a job is held back, its fault goes on counting and no warning begins. If it is not known whether it is held
back, no warning begins either, and one that was given is neither cancelled nor comes any closer to its end.
"""

from enum import StrEnum
from typing import Self, assert_never

from fallow.core.actions import Ask, CancelWarning, JobAction, Kill, Warn
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value

_LONGEST_NOTICE_S = 60.0
_LEAST_NOTICE_S = 1.0


class Rung(StrEnum):
    """The steps of the ladder."""

    CALM = "calm"
    WARNED = "warned"
    ASKED = "asked"
    KILLED = "killed"


class Sign(StrEnum):
    """What one tick shows: the fault is there, it is not, or that is unknown."""

    FAULT = "fault"
    FINE = "fine"
    UNKNOWN = "unknown"


@value
class LadderRules:
    """How long a fault may last, and how the job is warned and asked."""

    fault = ""
    """The kind of the reason that the job is warned and asked for."""

    timeout_s: float
    grace_s: float = 10.0
    longest_gap_s: float = 3.0
    warn_before_s: float | None = None
    """How long before it is asked; None for a minute, or half of a timeout shorter than two."""
    signal: str = "TERM"

    def allowing(self, idle_for_s: float | None) -> Self:
        """Return the rules for a job whose people said how long it may be idle: a rule gets no stricter by that."""
        return self if idle_for_s is None else replace(self, timeout_s=max(self.timeout_s, idle_for_s))

    @property
    def notice_s(self) -> float:
        """Return how long before it is asked a job is warned."""
        return min(_LONGEST_NOTICE_S, self.timeout_s / 2) if self.warn_before_s is None else self.warn_before_s

    @property
    def warn_after_s(self) -> float:
        """Return the seconds of the fault after which the job is warned."""
        return max(0.0, self.timeout_s - self.notice_s)

    @property
    def is_mostly_late(self) -> bool:
        """Return whether warnings mostly come later than they could, so that a late one gives the full notice."""
        return False

    @property
    def least_notice_s(self) -> float:
        """Return the notice that even a late warning gives: half of the full notice, and at least a second."""
        if self.is_mostly_late:
            return max(_LEAST_NOTICE_S, self.notice_s) if self.notice_s > 0 else 0.0
        notice_s = self.timeout_s - self.warn_after_s
        return max(_LEAST_NOTICE_S, notice_s / 2) if notice_s > 0 else 0.0


@value
class Ladder:
    """The state of one job on the ladder."""

    rung: Rung = Rung.CALM
    fault_s: float = 0.0
    """Witnessed seconds of the fault since it was last over."""
    asked_s: float = 0.0
    """Witnessed seconds since it was asked."""
    ask_at_s: float = 0.0
    """After the warning: the seconds of the fault at which it is asked."""

    def next_action(self, rules: LadderRules) -> tuple[str, float]:
        """Return what comes next if the fault goes on (warn, ask, kill or nothing), and in how many seconds of it."""
        match self.rung:
            case Rung.CALM:
                return "warn", max(0.0, rules.warn_after_s - self.fault_s)
            case Rung.WARNED:
                return "ask", max(0.0, self.ask_at_s - self.fault_s)
            case Rung.ASKED:
                return "kill", max(0.0, rules.grace_s - self.asked_s)
            case Rung.KILLED:
                return "nothing", 0.0
        assert_never(self.rung)

    def next_notice_s(self, rules: LadderRules) -> float | None:
        """Return how long after the warning that comes next the job is asked to end; None once it was warned."""
        if self.rung is not Rung.CALM:
            return None
        warned_at_s = max(self.fault_s, rules.warn_after_s)
        return max(rules.timeout_s - warned_at_s, rules.least_notice_s)


Climbed = tuple[Ladder, tuple[JobAction, ...]]


def climb(
    ladder: Ladder,
    passed_s: float,
    sign: Sign,
    found: Reason,
    rules: LadderRules,
    leave_alone: Reason | None = None,
    held_back: Reason | Unknown | None = None,
) -> Climbed:
    """Return the state after one tick that witnessed `passed_s`, and what to do. `leave_alone` is why nothing is.

    `held_back` is why the fault counts and nothing begins; Unknown if it is not known whether that is so.
    """
    if ladder.rung is Rung.KILLED:
        return ladder, ()
    if leave_alone is not None:
        return _down(ladder, leave_alone)
    if sign is Sign.FINE and ladder.rung is not Rung.ASKED:
        return _down(ladder, Reason("works", readings=found))
    fault_s = ladder.fault_s + (passed_s if sign is Sign.FAULT else 0.0)
    if ladder.rung is Rung.WARNED and ladder.ask_at_s < rules.timeout_s:
        held_back = Reason("longer_idle", for_s=rules.timeout_s, readings=found)
    if ladder.rung is Rung.WARNED and isinstance(held_back, Reason):
        return Ladder(fault_s=fault_s), (CancelWarning(held_back),)
    if passed_s == 0:
        return ladder, ()  # a tick that witnessed nothing may end a warning, and leads to nothing else
    if ladder.rung is Rung.ASKED:
        return _wait(ladder, passed_s, rules)
    if sign is not Sign.FAULT:
        return ladder, ()
    if held_back is not None:
        put_off_s = passed_s if ladder.rung is Rung.WARNED else 0.0
        return replace(ladder, fault_s=fault_s, ask_at_s=ladder.ask_at_s + put_off_s), ()
    return _up(replace(ladder, fault_s=fault_s), found, rules)


def _up(ladder: Ladder, found: Reason, rules: LadderRules) -> Climbed:
    lasted = Reason(rules.fault, for_s=ladder.fault_s, readings=found)
    if ladder.rung is Rung.CALM and ladder.fault_s >= rules.warn_after_s:
        ask_at_s = max(rules.timeout_s, ladder.fault_s + rules.least_notice_s)
        return replace(ladder, rung=Rung.WARNED, ask_at_s=ask_at_s), (Warn(lasted, ask_at_s - ladder.fault_s),)
    # The warning comes at least a tick before the signal, or nobody could react to it.
    if ladder.rung is Rung.WARNED and ladder.fault_s >= ladder.ask_at_s:
        return replace(ladder, rung=Rung.ASKED), (Ask(lasted, rules.signal, rules.grace_s),)
    return ladder, ()


def _down(ladder: Ladder, reason: Reason) -> Climbed:
    return Ladder(), () if ladder.rung is Rung.CALM else (CancelWarning(reason),)


def _wait(ladder: Ladder, passed_s: float, rules: LadderRules) -> Climbed:
    waited = replace(ladder, asked_s=ladder.asked_s + passed_s)
    if waited.asked_s < rules.grace_s:
        return waited, ()
    still_there = Reason("still_there", signal=rules.signal, for_s=waited.asked_s)
    return replace(waited, rung=Rung.KILLED), (Kill(still_there),)
