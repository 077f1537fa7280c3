"""What speaks against a filler beside the GPUs: a person at a terminal, the hours of the day."""

import os
from collections.abc import Collection
from contextlib import suppress

from fallow.core.errors import WrongUsage
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
    """For whom a filler makes way, and when it may be there at all."""

    mind_users: bool = True
    user_idle_s: float = 300.0
    ignore_users: tuple[str, ...] = ()
    between: tuple[int, int] | None = None
    """Minutes of the day."""


class PresenceCheck:
    """Asked once a tick. The terminal that fallow was started from does not count: its owner asked for this."""

    def __init__(self, world: World, presence: PresenceRules, terminals: Terminals | None = None) -> None:
        self._world = world
        self._manners = presence
        self._terminals = terminals if terminals is not None else world.terminals()
        self._own = own_terminals(world.proc)

    def cannot_see(self) -> Unknown | None:
        """Why people cannot be seen on this machine, where that matters."""
        people = self._terminals.people() if self._manners.mind_users else None
        return people if isinstance(people, Unknown) else None

    def against(self) -> str | Unknown | None:
        """A reason, Unknown where it cannot be told, or None."""
        hours = self._hours()
        if hours is not None:
            return hours
        return self._people(self._own) if self._manners.mind_users else None

    def _hours(self) -> str | None:
        if self._manners.between is None:
            return None
        first, last = self._manners.between
        if in_hours(minute_of_day(self._world.clock.wall_s()), first, last):
            return None
        return f"it is not between {_clock(first)} and {_clock(last)}"

    def _people(self, own: Collection[str]) -> str | Unknown | None:
        people = self._terminals.people()
        if isinstance(people, Unknown):
            return people
        unknown = None
        for person in people:
            if person.user in self._manners.ignore_users or person.terminal in own:
                continue
            if isinstance(person.idle_s, Unknown):
                unknown = Unknown(f"how long {person.user} has been away from {person.place} is {person.idle_s}")
            elif person.idle_s < self._manners.user_idle_s:
                return f"{person.user} was at {person.place} {duration_for_people(person.idle_s)} ago"
        return unknown


def demand_user_idle(seconds: float) -> float:
    """So many seconds without a touch can be seen; WrongUsage if they cannot."""
    if seconds < LEAST_IDLE_S:
        raise WrongUsage(
            f"nobody can be told to be away after {duration_for_people(seconds)}: the kernel notes touches of a "
            f"terminal in steps of 8s; write {duration_for_people(LEAST_IDLE_S)} or more"
        )
    return seconds


def own_terminals(proc: Proc) -> set[str]:
    """The terminals that we read or write, and those that whoever started us did it from, as through sudo."""
    above = (proc.stat(pid) for pid in proc.ancestors(os.getpid()))
    found = {name for row in above if row is not None and (name := terminal_name(row.terminal)) is not None}
    for fd in (0, 1, 2):
        with suppress(OSError):
            found.add(os.ttyname(fd).removeprefix("/dev/"))
    return found


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"
