"""Warn, ask, kill: the steps that every policy against a job takes, at most one in a tick.

    CALM    the fault was witnessed for warn_after_s                         -> WARNED  Warn
    WARNED  it was witnessed for ask_after_s, least_notice_s of it warned    -> ASKED   Ask
    WARNED  the fault is over                                                -> CALM    CancelWarning
    WARNED  a protection applies                                             -> CALM    CancelWarning
    ASKED   a protection applies                                             -> CALM    CancelWarning
    ASKED   grace_s were witnessed                                           -> KILLED  Kill

A fault that is over starts again from zero. A tick with an unknown reading counts zero and changes nothing. After a
job was asked, only time and protections count: what it does on the GPU then may be saving its work.
"""

from enum import StrEnum
from typing import assert_never

from fallow.core.actions import Ask, CancelWarning, JobAction, Kill, Warn
from fallow.core.reasons import Reason, ReasonKind
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
class Times:
    """When each step is due, and the kind of fault."""

    fault: ReasonKind
    warn_after_s: float
    ask_after_s: float
    grace_s: float
    signal: str = "TERM"

    @property
    def least_notice_s(self) -> float:
        """Return the notice that even a late warning gives: half of the full notice, and at least a second."""
        notice_s = self.ask_after_s - self.warn_after_s
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

    def next_action(self, times: Times) -> tuple[str, float]:
        """Return what comes next if the fault goes on (warn, ask, kill or nothing), and in how many seconds of it."""
        match self.rung:
            case Rung.CALM:
                return "warn", max(0.0, times.warn_after_s - self.fault_s)
            case Rung.WARNED:
                return "ask", max(0.0, self.ask_at_s - self.fault_s)
            case Rung.ASKED:
                return "kill", max(0.0, times.grace_s - self.asked_s)
            case Rung.KILLED:
                return "nothing", 0.0
        assert_never(self.rung)


Climbed = tuple[Ladder, tuple[JobAction, ...]]


def warn_after_s(timeout_s: float, warn_before_s: float | None) -> float:
    """Return when to warn of a timeout: by default a minute before it, or half of a shorter time."""
    notice_s = min(_LONGEST_NOTICE_S, timeout_s / 2) if warn_before_s is None else warn_before_s
    return max(0.0, timeout_s - notice_s)


def climb(
    ladder: Ladder, passed_s: float, sign: Sign, because: str, times: Times, leave_alone: Reason | None = None
) -> Climbed:
    """Return the state after one tick that witnessed `passed_s`, and what to do. `leave_alone` is why nothing is."""
    if ladder.rung is Rung.KILLED:
        return ladder, ()
    if leave_alone is not None:
        return _down(ladder, leave_alone)
    if sign is Sign.FINE and ladder.rung is not Rung.ASKED:
        return _down(ladder, Reason.of(ReasonKind.WORKS, readings=because))
    if passed_s == 0:
        return ladder, ()  # a tick that witnessed nothing may end a warning, and leads to nothing else
    if ladder.rung is Rung.ASKED:
        return _wait(ladder, passed_s, times)
    if sign is Sign.FAULT:
        return _up(replace(ladder, fault_s=ladder.fault_s + passed_s), because, times)
    return ladder, ()


def _up(ladder: Ladder, because: str, times: Times) -> Climbed:
    lasted = Reason.of(times.fault, for_s=ladder.fault_s, readings=because)
    if ladder.rung is Rung.CALM and ladder.fault_s >= times.warn_after_s:
        ask_at_s = max(times.ask_after_s, ladder.fault_s + times.least_notice_s)
        return replace(ladder, rung=Rung.WARNED, ask_at_s=ask_at_s), (Warn(lasted, ask_at_s - ladder.fault_s),)
    # The warning comes at least a tick before the signal, or nobody could react to it.
    if ladder.rung is Rung.WARNED and ladder.fault_s >= ladder.ask_at_s:
        return replace(ladder, rung=Rung.ASKED), (Ask(lasted, times.signal),)
    return ladder, ()


def _down(ladder: Ladder, reason: Reason) -> Climbed:
    return Ladder(), () if ladder.rung is Rung.CALM else (CancelWarning(reason),)


def _wait(ladder: Ladder, passed_s: float, times: Times) -> Climbed:
    waited = replace(ladder, asked_s=ladder.asked_s + passed_s)
    if waited.asked_s < times.grace_s:
        return waited, ()
    still_there = Reason.of(ReasonKind.STILL_THERE, signal=times.signal, for_s=waited.asked_s)
    return replace(waited, rung=Rung.KILLED), (Kill(still_there),)
