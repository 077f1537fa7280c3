"""Reasons against a filler other than the GPUs: a person at a terminal, the hours of the day."""

import os
from collections.abc import Collection
from contextlib import suppress

from fallow.core.errors import WrongUsage
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.machine.clock import minute_of_day
from fallow.engine.machine.world import World
from fallow.policies.signs import in_hours
from fallow.readers.proc import Proc
from fallow.readers.terminals import LEAST_IDLE_S, Terminals, terminal_name


@value
class PresenceRules:
    """For which people a filler yields, and between which hours it may run."""

    mind_users: bool = True
    user_idle_s: float = 300.0
    ignore_users: tuple[str, ...] = ()
    between: tuple[int, int] | None = None
    """Minutes of the day."""


class PresenceCheck:
    """Checks the rules once a tick. The terminal that fallow was started from does not count."""

    def __init__(self, world: World, rules: PresenceRules, terminals: Terminals | None = None) -> None:
        self._world = world
        self._rules = rules
        self._terminals = terminals if terminals is not None else world.terminals()
        self._own = own_terminals(world.proc)

    def cannot_see(self) -> Unknown | None:
        """Return why people at terminals cannot be found on this machine, if the rules need that."""
        people = self._terminals.people() if self._rules.mind_users else None
        return people if isinstance(people, Unknown) else None

    def against(self) -> Reason | Unknown | None:
        """Return a reason against a filler, Unknown if there may be one, or None."""
        hours = self._hours()
        if hours is not None:
            return hours
        if not self._rules.mind_users:
            return None
        if self._own:  # one that was closed is ours no more: the next person gets its number
            self._own &= own_terminals(self._world.proc)
        return who_is_at_a_terminal(self._terminals, self._rules.user_idle_s, self._rules.ignore_users, self._own)

    def _hours(self) -> Reason | None:
        if self._rules.between is None:
            return None
        first, last = self._rules.between
        if in_hours(minute_of_day(self._world.clock.wall_s()), first, last):
            return None
        return Reason("out_of_hours", first=_clock(first), last=_clock(last))


def who_is_at_a_terminal(
    terminals: Terminals, idle_s: float, ignored_users: Collection[str] = (), ignored_terminals: Collection[str] = ()
) -> Reason | Unknown | None:
    """Return which person has used a terminal within `idle_s`, Unknown if that cannot be read, or None."""
    people = terminals.people()
    if isinstance(people, Unknown):
        return people
    unknown = None
    for person in people:
        if person.user in ignored_users or person.terminal in ignored_terminals:
            continue
        if isinstance(person.idle_s, Unknown):
            unknown = Unknown(f"how long {person.user} has been away from {person.place} is {person.idle_s}")
        elif person.idle_s < idle_s:
            return Reason("user_there", user=person.user, place=person.place, ago_s=person.idle_s)
    return unknown


def demand_user_idle(seconds: float) -> float:
    """Return the seconds; raise WrongUsage if they are too few to be measured at a terminal."""
    if seconds < LEAST_IDLE_S:
        raise WrongUsage(
            f"{duration_for_people(seconds)} at a terminal cannot be measured: the kernel notes when it is used in "
            f"steps of 8s; write {duration_for_people(LEAST_IDLE_S)} or more"
        )
    return seconds


def own_terminals(proc: Proc) -> set[str]:
    """Return the terminals that fallow reads or writes, and those of the processes that started it, as with sudo."""
    above = (proc.stat(pid) for pid in proc.ancestors(os.getpid()))
    found = {name for row in above if row is not None and (name := terminal_name(row.terminal)) is not None}
    for fd in (0, 1, 2):
        with suppress(OSError):
            found.add(os.ttyname(fd).removeprefix("/dev/"))
    return found


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
