"""Why something is done to a job, or refused: a kind from a closed set, and its facts.

Programs read the kind and the facts. People read the sentence, which is made here and nowhere else.
"""

from enum import StrEnum

from fallow.core.units import duration_for_people
from fallow.core.value import value

Fact = str | float


class ReasonKind(StrEnum):
    """Every kind of reason."""

    IDLE = "idle"
    STUCK = "stuck"
    WORKS = "works"
    STILL_THERE = "still_there"
    JOINED = "joined"
    NOT_COVERED = "not_covered"
    PROTECTED = "protected"
    PROTECTED_USER = "protected_user"
    PROTECTED_COMMAND = "protected_command"
    OWNER_UNKNOWN = "owner_unknown"
    COMMAND_UNKNOWN = "command_unknown"
    OTHER_USER = "other_user"
    FALLOW_ITSELF = "fallow_itself"
    NEEDS_ROOT = "needs_root"
    CONFLICT = "conflict"
    RATE_LIMIT = "rate_limit"


_SENTENCES = {
    ReasonKind.IDLE: "idle for {for_s}: {readings}",
    ReasonKind.STUCK: "stuck for {for_s}: {readings}",
    ReasonKind.WORKS: "{readings}",
    ReasonKind.STILL_THERE: "it was asked with SIG{signal} {for_s} ago and is still there",
    ReasonKind.JOINED: "a process has joined it that was not warned",
    ReasonKind.NOT_COVERED: "the rule no longer covers it",
    ReasonKind.PROTECTED: "{protection}",
    ReasonKind.PROTECTED_USER: "pid {pid} is {user}'s, who is protected",
    ReasonKind.PROTECTED_COMMAND: "pid {pid} runs {program!r}, which is protected",
    ReasonKind.OWNER_UNKNOWN: "the owner of pid {pid} is not known",
    ReasonKind.COMMAND_UNKNOWN: "the command of pid {pid} is not known, and some commands are protected",
    ReasonKind.OTHER_USER: "pid {pid} below it is {user}'s, not {owner}'s",
    ReasonKind.FALLOW_ITSELF: "pid {pid} is fallow's own, or fallow depends on it",
    ReasonKind.NEEDS_ROOT: "pid {pid} is {user}'s, and signalling it needs root",
    ReasonKind.CONFLICT: "it conflicts with what was decided before: {action}",
    ReasonKind.RATE_LIMIT: "{count} were ended in the last {per_s}, and {most} may be",
}


@value
class Reason:
    """Why: a kind, and the facts that its sentence needs. Names that end in `_s` are seconds."""

    kind: ReasonKind
    facts: tuple[tuple[str, Fact], ...] = ()

    @classmethod
    def of(cls, kind: ReasonKind, **facts: Fact) -> "Reason":
        """Return a reason of this kind."""
        return cls(kind, tuple(facts.items()))

    def __str__(self) -> str:
        texts = {name: duration_for_people(float(fact)) if name.endswith("_s") else fact for name, fact in self.facts}
        return _SENTENCES[self.kind].format(**texts)
