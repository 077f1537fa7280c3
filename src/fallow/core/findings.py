"""A verdict: what was found, with the readings that show it; events of the journal, and outcomes of actions."""

from fallow.core.reasons import Reason, WithReason
from fallow.core.units import duration_for_people, is_number
from fallow.core.value import value

Evidence = tuple[tuple[str, str], ...]
"""Readings as pairs of a name and a text, the most important first."""

USER = "user:"
"""Before the name of a user: the key under which the journal finds events about their jobs."""


def gpu_key(uuid: object) -> str:
    """Return the key under which the journal keeps events about a GPU."""
    return f"gpu:{uuid}"


def process_key(pid: int, birth: int) -> str:
    """Return the key under which the journal keeps events about a process. Pids are reused, so the birth is in it."""
    return f"pid:{pid}@{birth}"


def process_of_key(key: str) -> tuple[int, int] | None:
    """Return the pid and the birth that are in a key of the journal; None if it is not one of a process."""
    pid, _, birth = key.removeprefix("pid:").partition("@")
    return (int(pid), int(birth)) if key.startswith("pid:") and is_number(pid) and is_number(birth) else None


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
    keys: tuple[str, ...] = ()
    """What it is about: the keys of GPUs and processes, where the journal itself was read."""

    @property
    def step(self) -> str:
        """Return what was done to a job: warn, cancel_warning, ask, kill, stopped, park or wake; else it is empty."""
        return str(dict(self.facts).get("step", ""))

    @property
    def rule(self) -> str:
        """Return the name of the rule by which it was found or done; empty if there is none."""
        return str(dict(self.facts).get("rule", ""))

    @property
    def job_user(self) -> str:
        """Return whose job it is about; empty if the journal does not tell."""
        return str(dict(self.facts).get("job_user", ""))

    @property
    def whose(self) -> str:
        """Return whose job it is about, also where only its name tells; empty if it is about no job."""
        user, is_job, _ = self.subject.partition("'s job ")
        return self.job_user or (user if is_job else "")

    def in_words(self, now_wall_s: float) -> str:
        """Return one line for people."""
        ago = duration_for_people(max(0.0, now_wall_s - self.wall_s))
        by = f" (rule {self.rule})" if self.rule else ""
        return f"{ago} ago, {self.kind}: {self.subject}: {self.finding}: {self.because}{by}"


@value
class Outcome:
    """The outcome of an action: whether it was done, and a sentence about it."""

    ok: bool
    words: str
    not_permitted: bool = False
    """True if it was refused for want of rights."""
