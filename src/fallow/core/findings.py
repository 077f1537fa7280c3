"""A verdict: what was found of something, and the readings that say so; and how it is remembered."""

from fallow.core.units import duration_for_people
from fallow.core.value import value

Evidence = tuple[tuple[str, str], ...]
"""Readings as pairs of a name and a text, in the order a person would want them."""


def gpu_key(uuid: object) -> str:
    """Under which the journal keeps what is said of a GPU."""
    return f"gpu:{uuid}"


def process_key(pid: int, birth: int) -> str:
    """Under which the journal keeps what is said of a process: pids come again, and then they are somebody else."""
    return f"pid:{pid}@{birth}"


@value
class Verdict:
    """What was found of a subject, the sentence that says why, and the readings behind it."""

    subject: str
    finding: str
    because: str
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
    """The kind of the reason (see ReasonKind), where the row has one."""
    facts: tuple[tuple[str, str | float], ...] = ()
    """The facts of the reason."""

    def in_words(self, now_wall_s: float) -> str:
        """One line, as a person would tell it."""
        ago = duration_for_people(max(0.0, now_wall_s - self.wall_s))
        return f"{ago} ago, {self.kind}: {self.subject}: {self.finding}: {self.because}"


@value
class Outcome:
    """Whether it was done, and in words."""

    ok: bool
    words: str
