"""Act on a job through its owner: the warnings and signals of its processes, but ended by who would restart it.

The owner is asked beside the loop, since it may take its time. What came of it is in the words with which the job is
said to be gone. If it fails, or has not answered yet, the job is left alone: after a signal it would start it again.
"""

import os
from collections.abc import Callable, Sequence

from fallow.actuators.process.signals import untouchable
from fallow.core.actions import Ask, Kill
from fallow.core.findings import Outcome
from fallow.core.job import Job
from fallow.core.protections import AffectedProcess
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.jobs.ports import JobActions
from fallow.engine.jobs.protections import affected_process
from fallow.engine.machine.background import do_once
from fallow.engine.machine.world import World
from fallow.engine.owners.contact import Contact
from fallow.engine.owners.opt_outs import VARIABLE, opted_out_by_variable


class OwnerJobActions:
    """Warns and looks as the actions on the processes do, and stops through the owner."""

    def __init__(
        self, world: World, processes: JobActions, contact: Contact | Unknown, say: Callable[[str], None], job: Job
    ) -> None:
        self._world = world
        self._processes = processes
        self._contact = contact
        self._say = say
        self._job = job
        self._begun = 0
        self._said: list[Outcome] = []
        self.find = processes.find
        self.warn = processes.warn
        self.warn_by_signal = processes.warn_by_signal
        self.cancel = processes.cancel
        self.before_ask = processes.before_ask

    def describe(self) -> tuple[AffectedProcess, ...]:
        """Return the processes of the job, and all that its owner would end with it."""
        own = self._processes.describe()
        known = {process.pid for process in own}
        others = frozenset[int]() if isinstance(self._contact, Unknown) else self._contact.facts.pids
        if isinstance(others, Unknown):
            return own
        return (*own, *(affected_process(self._world, pid) for pid in sorted(others - known)))

    def forbidden(self, processes: Sequence[AffectedProcess]) -> Reason | None:
        """Return why the job must not be touched: its owner does not stop it, or one of its processes forbids it."""
        why = self._left_alone
        if why is not None or isinstance(self._contact, Unknown):
            return why
        theirs = next(iter(self._job.others), None)
        if theirs is not None and os.geteuid() != 0:
            return Reason("other_user", pid=theirs.pid, user=self._job.others[theirs], owner=self._job.user)
        with_it = self._contact.facts.pids
        if isinstance(with_it, Unknown):
            return self._processes.forbidden(processes)
        ours = next((process.pid for process in processes if process.pid in untouchable(self._world.proc)), None)
        if ours is not None:
            return Reason("fallow_itself", pid=ours)
        variables = self._world.proc.variables
        for pid in sorted(with_it):
            opt_out = opted_out_by_variable(pid, variables(pid, VARIABLE) or {})
            if opt_out is not None:
                return opt_out
        # A container or a unit ends as a whole, whoever its processes run as.
        return self._processes.forbidden([process for process in processes if process.pid not in with_it])

    def way(self, action: Ask | Kill) -> str:
        """Return what would be done, after `would`."""
        return self._processes.way(action) if isinstance(self._contact, Unknown) else self._contact.words

    def ask(self, action: Ask) -> Outcome:
        """Have the owner stop the job, with the grace of the rule."""
        if isinstance(self._contact, Unknown):
            return Outcome(False, self._contact.why)
        stop, grace_s = self._contact.stop, action.grace_s
        self._begin(lambda: stop(grace_s))
        return Outcome(True, f"asked to {self._contact.words}")

    def kill(self, action: Kill) -> Outcome:
        """Have the owner kill what is left; by signals where it cannot."""
        why = self._left_alone
        if why is not None or isinstance(self._contact, Unknown):
            return Outcome(False, str(why))
        if self._contact.kill is None:
            return self._processes.kill(action)
        self._begin(self._contact.kill)
        return Outcome(True, f"asked again to {self._contact.words}, at once")

    @property
    def is_answered(self) -> bool:
        """Return whether the owner has answered all that it was told."""
        return len(self._said) >= self._begun

    @property
    def failure(self) -> str | None:
        """Return what the owner answered if it did not stop the job; None while it has not failed."""
        return next((outcome.words for outcome in self._said if not outcome.ok), None)

    @property
    def _left_alone(self) -> Reason | None:
        """Return why no signal may follow: the owner cannot be asked, has not answered, or has failed."""
        if isinstance(self._contact, Unknown):
            return Reason("owner_silent", why=self._contact.why)
        if self.failure is not None:
            return Reason("owner_failed", why=self.failure)
        return Reason("owner_silent", why="it has not answered yet") if self._begun and not self._said else None

    def survivors(self) -> str:
        """Kill once more what is left, by signals, and name it."""
        why = self._left_alone
        return self._processes.survivors() if why is None else str(why)

    def is_gone(self, job: Job | None) -> str | None:
        """Return how the job left its GPUs and what its owner answered; None while it is there or not answered."""
        gone = self._processes.is_gone(job)
        if gone is None or not self.is_answered:
            return None
        return "; ".join([gone, *(outcome.words for outcome in self._said[-1:])])

    def _begin(self, stop: Callable[[], Outcome]) -> None:
        def work() -> None:
            try:
                outcome = stop()
            except BaseException as error:
                self._said.append(Outcome(False, f"asking it failed with {type(error).__name__}"))
                raise
            self._said.append(outcome)
            if not outcome.ok:
                self._say(f"{self._job.subject} is left alone: its owner did not stop it: {outcome.words}")

        self._begun += 1

        do_once("a stop through an owner", work, self._say)
