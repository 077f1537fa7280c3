"""What is known of owners now: asked beside the loop, kept for some seconds, and asked again while it is needed.

Each user's owners are asked in a thread of their own, so that a user whose server or file system hangs keeps nobody
else's from being asked.
"""

from collections.abc import Callable
from functools import partial

from fallow.core.owner import NO_OWNER, Owner
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.core.value import replace, value
from fallow.engine.machine.background import Background
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact, Recent, contact
from fallow.readers.owners.traces import trace

_ASKED_AGAIN_AFTER_S = 10.0
_FORGOTTEN_AFTER_S = 60.0
_FORGETS_EVERY_S = 1.0
NOT_YET = Unknown("its owner has not answered yet", asked=False)

Ask = Callable[[World, Owner, int], Contact | Unknown | None]


@value
class _Answer:
    contact: Contact | Unknown | None
    at_s: float
    """When it was asked."""


class KnownOwners:
    """The owners of processes. `of` and `contact` return at once."""

    def __init__(self, world: World, say: Callable[[str], None], ask: Ask | None = None) -> None:
        self._world = world
        self._say = say
        self._ask = partial(contact, recent=Recent(world.clock)) if ask is None else ask
        self._traced: dict[Process, tuple[Owner | Unknown, float]] = {}
        self._answers: dict[Process, _Answer] = {}
        self._pending: dict[Process, float] = {}
        self._threads: dict[int | None, Background[tuple[Process, Owner]]] = {}
        self._forgot_s = 0.0

    def of(self, process: Process) -> Owner | Unknown:
        """Return the owner of a process, with its name if it is known by now; none where nobody can be asked."""
        traced = self.traced(process)
        if isinstance(traced, Unknown) or not traced.is_asked:
            return traced
        known = self.contact(process, traced)
        if known is None:
            return NO_OWNER
        return traced if isinstance(known, Unknown) else replace(traced, name=known.facts.name)

    def traced(self, process: Process) -> Owner | Unknown:
        """Return the owner of a process by its traces alone."""
        now_s = self._world.clock.monotonic_s()
        traced, at_s = self._traced.get(process, (NOT_YET, -_FORGOTTEN_AFTER_S))
        self._forget(now_s)
        if isinstance(traced, Unknown) or now_s - at_s >= _ASKED_AGAIN_AFTER_S:
            traced = trace(self._world.proc, process.pid)
            self._traced[process] = traced, now_s
        return traced

    def contact(self, process: Process, owner: Owner) -> Contact | Unknown | None:
        """Return the contact to an owner as it was some seconds ago at most; None if there is nobody to ask."""
        if not owner.is_asked:
            return None
        now_s = self._world.clock.monotonic_s()
        self._forget(now_s)
        answer = self._answers.get(process)
        if answer is None or now_s - answer.at_s >= _ASKED_AGAIN_AFTER_S:
            self._want(process, owner, now_s)
        return NOT_YET if answer is None or now_s - answer.at_s >= _FORGOTTEN_AFTER_S else answer.contact

    def finish(self, limit_s: float) -> None:
        """Wait until all that was asked for is answered, for so long at most."""
        until_s = self._world.clock.monotonic_s() + limit_s
        for thread in self._threads.values():
            thread.finish(max(0.0, until_s - self._world.clock.monotonic_s()))

    def _want(self, process: Process, owner: Owner, now_s: float) -> None:
        """Have an owner asked, unless that is under way."""
        if now_s - self._pending.get(process, -_FORGOTTEN_AFTER_S) < _FORGOTTEN_AFTER_S:
            return
        user = owner.manager or self._world.proc.uid(process.pid)
        if user not in self._threads:
            self._threads[user] = Background(f"owners of user {user}", self._look, self._say)
        self._pending[process] = now_s
        self._threads[user].give((process, owner))

    def _look(self, wanted: tuple[Process, Owner]) -> None:
        process, owner = wanted
        at_s = self._world.clock.monotonic_s()
        found: Contact | Unknown | None = Unknown("asking its owner failed")
        try:
            found = self._ask(self._world, owner, process.pid)
            stat = self._world.proc.stat(process.pid)
            if stat is None or stat.birth != process.birth:
                found = Unknown("the process has ended")
        finally:
            self._answers[process] = _Answer(found, at_s)
            self._pending.pop(process, None)

    def _forget(self, now_s: float) -> None:
        """Drop what nobody has asked for lately; once a second."""
        if now_s - self._forgot_s < _FORGETS_EVERY_S:
            return
        self._forgot_s = now_s
        for process, (_, at_s) in list(self._traced.items()):
            if now_s - at_s >= _FORGOTTEN_AFTER_S:
                self._traced.pop(process, None)
        for process, answer in list(self._answers.items()):
            if now_s - answer.at_s >= _FORGOTTEN_AFTER_S:
                self._answers.pop(process, None)
        for process, given_s in list(self._pending.items()):
            if now_s - given_s >= _FORGOTTEN_AFTER_S:
                self._pending.pop(process, None)
