"""A verdict: what was found, with the readings that show it; events of the journal, and outcomes of actions."""

from fallow.core.reasons import Reason, WithReason
from fallow.core.units import duration_for_people
from fallow.core.value import value

Evidence = tuple[tuple[str, str], ...]
"""Readings as pairs of a name and a text, the most important first."""


def gpu_key(uuid: object) -> str:
    """Return the key under which the journal keeps events about a GPU."""
    return f"gpu:{uuid}"


def process_key(pid: int, birth: int) -> str:
    """Return the key under which the journal keeps events about a process. Pids are reused, so the birth is in it."""
    return f"pid:{pid}@{birth}"


@value
class Verdict(WithReason):
    """What was found about a subject, why, and the readings that show it."""

    subject: str
    finding: str
    reason: Reason
    evidence: Evidence = ()


@value
class Event:
    """One row of the journal: a verdict, an action, an outcome, or a refusal."""

    id: int
    wall_s: float
    kind: str
    subject: str
    finding: str
    because: str
    evidence: Evidence
    reason: str = ""
    """The kind of the reason (see core/reasons.py), where the row has one."""
    facts: tuple[tuple[str, str | float], ...] = ()
    """The facts of the reason."""

    @property
    def step(self) -> str:
        """Return what was done to a job: warn, cancel_warning, ask, kill, stopped, park or wake; else it is empty."""
        return str(dict(self.facts).get("step", ""))

    def in_words(self, now_wall_s: float) -> str:
        """Return one line for people."""
        ago = duration_for_people(max(0.0, now_wall_s - self.wall_s))
        return f"{ago} ago, {self.kind}: {self.subject}: {self.finding}: {self.because}"


@value
class Outcome:
    """The outcome of an action: whether it was done, and a sentence about it."""

    ok: bool
    words: str
    not_permitted: bool = False
    """True if it was refused for want of rights."""
