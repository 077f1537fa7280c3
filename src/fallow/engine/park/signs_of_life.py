"""Notice that the people of a parked job use it again: its kernel runs a cell, or its terminal is typed at."""

from fallow.core.parked import ParkedJob
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact
from fallow.engine.owners.known import KnownOwners
from fallow.readers.terminals import LEAST_IDLE_S, Terminals, terminal_name


class SignsOfLife:
    """Looks for them. What cannot be read is no sign: the job stays parked, and a person can wake it."""

    def __init__(self, world: World, owners: KnownOwners) -> None:
        self._world = world
        self._owners = owners
        self._terminals: Terminals | None = None

    def of(self, job: ParkedJob) -> Reason | None:
        """Return what shows that a parked job is used again; None if nothing does."""
        return self._kernel(job) or self._terminal(job)

    def _kernel(self, job: ParkedJob) -> Reason | None:
        owner = self._owners.traced(job.first)
        if isinstance(owner, Unknown) or not owner.is_asked:
            return None
        contact = self._owners.contact(job.first, owner)
        return Reason("kernel_busy") if isinstance(contact, Contact) and contact.facts.busy is True else None

    def _terminal(self, job: ParkedJob) -> Reason | None:
        stat = self._world.proc.stat(job.first.pid)
        terminal = None if stat is None or stat.birth != job.first.birth else terminal_name(stat.terminal)
        if terminal is None:
            return None
        if self._terminals is None:
            self._terminals = self._world.terminals()
        people = self._terminals.people()
        parked_s = self._world.clock.wall_s() - job.since_wall_s
        for person in () if isinstance(people, Unknown) else people:
            idle_s = parked_s if isinstance(person.idle_s, Unknown) else person.idle_s
            if person.terminal == terminal and idle_s < parked_s - LEAST_IDLE_S:
                return Reason("terminal_used", user=person.user, place=terminal)
        return None
