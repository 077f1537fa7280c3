"""Decide whether an action may be done. Every action that a policy proposes is decided here.

It has no states. An action is refused for the first of these that is true:

    a protection covers what it touches -> it touches a protected user, group or command
    -> too much was ended lately

CancelWarning and CallOff are always allowed, because nothing is harmed by them. A protection always wins.
"""

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import assert_never

from fallow.core.actions import (
    Action,
    Announce,
    Ask,
    CallOff,
    CancelWarning,
    EndGuard,
    Kill,
    Notify,
    PowerOff,
    Reboot,
    RunCommand,
    SendSignal,
    Warn,
)
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
    """At most so many actions that end work in so long a time."""

    most: int
    per_s: float


@value
class Proposal:
    """An action, and what it would affect."""

    action: Action
    touched: Affected


@value
class Taken:
    """An action that was taken, and when."""

    proposal: Proposal
    at_s: float


@value
class Ruling:
    """A proposal, and why it is refused; None if it is allowed."""

    proposal: Proposal
    refused: Reason | None


def arbitrate(
    proposals: Sequence[Proposal],
    *,
    at_s: float,
    wall_s: float,
    protections: Sequence[Protection] = (),
    protect_rules: ProtectRules | None = None,
    recent: Sequence[Taken] = (),
    limit: RateLimit | None = None,
) -> tuple[Ruling, ...]:
    """Return a ruling on each proposal, in order: what is allowed first counts against what follows."""
    taken = list(recent)
    rulings: list[Ruling] = []
    for proposal in proposals:
        why = None
        if not _only_calms(proposal.action):
            why = leave_alone(proposal.touched, wall_s, protections, protect_rules) or _too_many(
                proposal, taken, limit, at_s
            )
        if why is None:
            taken.append(Taken(proposal, at_s))
        rulings.append(Ruling(proposal, why))
    return tuple(rulings)


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


def _only_calms(action: Action) -> bool:
    return isinstance(action, CancelWarning | CallOff)


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


def _too_many(proposal: Proposal, taken: Iterable[Taken], limit: RateLimit | None, at_s: float) -> Reason | None:
    # Killing ends nothing new: the job was asked before, and that was counted.
    if limit is None or not _ends_work(proposal.action) or isinstance(proposal.action, Kill):
        return None
    lately = [
        before
        for before in taken
        if at_s - before.at_s < limit.per_s
        and _ends_work(before.proposal.action)
        and not isinstance(before.proposal.action, Kill)
    ]
    if len(lately) < limit.most:
        return None
    return Reason("rate_limit", count=len(lately), per_s=limit.per_s, most=limit.most)


def _ends_work(action: Action) -> bool:
    match action:
        case Ask() | Kill() | SendSignal() | PowerOff() | Reboot():
            return True
        case Warn() | CancelWarning() | Announce() | CallOff() | EndGuard() | RunCommand() | Notify():
            return False
    assert_never(action)
