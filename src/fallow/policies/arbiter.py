"""Decide whether an action may be done. Every action that a policy proposes is decided here.

It has no states. An action is refused for the first of these that is true:

    a protection covers what it touches -> it touches a protected user, group or command
    -> too much was ended lately

CancelWarning and CallOff are always allowed, because nothing is harmed by them. A protection always wins.
"""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

from fallow.core.actions import Action, Ask, CallOff, CancelWarning
from fallow.core.protections import Affected, AffectedProcess, Protection, protection_on
from fallow.core.reasons import Reason
from fallow.core.units import program_name
from fallow.core.unknown import Unknown
from fallow.core.value import value

_NOBODY_KNOWS = Unknown("nobody looks them up")


@value
class ProtectRules:
    """The users, groups and commands that an administrator has exempted for good."""

    users: frozenset[str] = frozenset()
    commands: tuple[str, ...] = ()
    """Shell patterns, for the command line or for the name of any of its words: `jupyter*`."""
    groups: tuple[str, ...] = ()
    groups_of: Callable[[str], frozenset[str] | Unknown] | None = None
    """Returns those of `groups` that a user is in; without it nobody knows, and all are protected."""


@value
class RateLimit:
    """At most so many jobs are asked to end in so long a time."""

    most: int
    per_s: float


@value
class Taken:
    """A job that was asked to end, and when."""

    at_s: float


def why_refused(
    action: Action,
    touched: Affected,
    *,
    at_s: float,
    wall_s: float,
    protections: Sequence[Protection] = (),
    protect_rules: ProtectRules | None = None,
    recent: Sequence[Taken] = (),
    limit: RateLimit | None = None,
) -> Reason | None:
    """Return why an action that would affect this is refused; None if it is allowed."""
    if isinstance(action, CancelWarning | CallOff):
        return None
    alone = leave_alone(touched, wall_s, protections, protect_rules)
    if alone is not None or limit is None or not isinstance(action, Ask):
        return alone
    lately = [taken for taken in recent if at_s - taken.at_s < limit.per_s]
    if len(lately) < limit.most:
        return None
    return Reason("rate_limit", count=len(lately), per_s=limit.per_s, most=limit.most)


def leave_alone(
    touched: Affected, wall_s: float, protections: Iterable[Protection], protect_rules: ProtectRules | None = None
) -> Reason | None:
    """Return why this is to be left alone now, or None. Policies are given it before they decide."""
    protection = protection_on(touched, protections, wall_s)
    if protection is not None:
        return Reason(
            "protected",
            protection=protection.in_words(dict(touched.labels)),
            id=protection.id,
            by=protection.by_user,
            target=str(protection.target),
        )
    if protect_rules is None:
        return None
    for process in touched.processes:
        why = _protected(process, protect_rules)
        if why is not None:
            return why
    return None


def _protected(process: AffectedProcess, protect_rules: ProtectRules) -> Reason | None:
    """Return why the process is protected. In doubt it is: its owner or its command may be unknown."""
    if protect_rules.users or protect_rules.groups:
        if isinstance(process.user, Unknown):
            return Reason("owner_unknown", pid=process.pid)
        if process.user in protect_rules.users:
            return Reason("protected_user", pid=process.pid, user=process.user)
    if protect_rules.groups:
        user = str(process.user)
        groups = _NOBODY_KNOWS if protect_rules.groups_of is None else protect_rules.groups_of(user)
        if isinstance(groups, Unknown):
            return Reason("groups_unknown", pid=process.pid, user=user, why=groups.why)
        if groups:
            return Reason("protected_group", pid=process.pid, user=user, group=min(groups))
    if protect_rules.commands:
        if isinstance(process.command, Unknown):
            return Reason("command_unknown", pid=process.pid)
        for pattern in protect_rules.commands:
            if command_fits(process.command, pattern):
                program = program_name(process.command)
                return Reason("protected_command", pid=process.pid, program=program, pattern=pattern)
    return None


def command_fits(command: str, pattern: str) -> bool:
    """Return whether a shell pattern fits the command line, or the name of any of its words."""
    names = (word.rpartition("/")[2] for word in command.split())
    return fnmatchcase(command, pattern) or any(fnmatchcase(name, pattern) for name in names)
