"""`fallow slurm epilog`: end what is left of a job on its GPUs, and nothing else.

    found      each process is shown to be of this job; its pid and birth are what is signalled
    asked      SIGTERM to it and all below it, but to nothing that belongs to another job
    killed     SIGKILL after the grace, until it is gone or 5 s have passed
    left       what survives, or what root protects, is named; Slurm then drains the node

A user's protection ends with the job: otherwise anybody could keep GPUs by one. Root's counts.
"""

import signal
from collections.abc import Sequence
from typing import Protocol

from fallow.actuators.process.signals import demand_own_pids
from fallow.actuators.process.tree import JobTree
from fallow.core.actions import Ask, Kill, in_words, kind_of
from fallow.core.errors import NotPermitted
from fallow.core.findings import gpu_key, process_key
from fallow.core.gpu import Gpu
from fallow.core.ports import Depth
from fallow.core.protections import Affected, AffectedProcess
from fallow.core.reasons import Reason
from fallow.core.units import duration_for_people
from fallow.core.unknown import Unknown
from fallow.core.value import value
from fallow.engine.history.run import Run
from fallow.engine.slurm_node.job import NodeJob, cards_of
from fallow.engine.slurm_node.leftovers import Leftover, is_of_another_job, on_cards
from fallow.policies.arbiter import Proposal, arbitrate

_LOOK_AGAIN_S = 0.05
_DIES_WITHIN_S = 5.0
_ROOT = "root"
_NOBODY = 0  # the number of a protection that stands for all that could not be read


@value
class Epilog:
    """What came of an epilog."""

    ended: tuple[Leftover, ...] = ()
    left: str | None = None
    """What of the job is still on its GPUs, in one sentence; None if nothing is."""
    notes: tuple[str, ...] = ()


class Hands(Protocol):
    """What is done to leftovers."""

    def end(self, leftovers: Sequence[Leftover], ask: Ask) -> str | None:
        """End them; return what survives, in words."""


def run_epilog(run: Run, job: NodeJob, grace_s: float) -> Epilog:
    """Look at the GPUs of the job, and end what is left of it there."""
    world = run.world
    if not job.gpus:
        return Epilog()
    demand_own_pids(world.proc)
    if world.simulated is None and world.proc.in_pid_namespace_of_its_own():
        raise NotPermitted("inside a container the driver's pids are not those seen here, so nothing can be ended")
    cards, missing = cards_of(job, world.gpu_reader.look(Depth.EVERYTHING).gpus)
    found = on_cards(world, job, cards)
    notes = (*(f"GPU {name} of the job is not there" for name in missing), *found.unknown, *found.strangers)
    if not found.leftovers:
        return Epilog(notes=notes)
    labels = ", ".join(dict.fromkeys(label for each in found.leftovers for label in each.gpus))
    ask = Ask(Reason("slurm_job_over", job=job.id, gpus=labels), grace_s=grace_s)
    keys = _keys(job, cards, found.leftovers)
    refused = _refused(run, cards, found.leftovers, ask)
    if refused is not None:
        run.journal.refusal(job.subject, in_words(ask), refused, keys)
        return Epilog(
            left=f"{_names(found.leftovers)} is left of {job.subject} on GPU {labels}: {refused}", notes=notes
        )
    hands: Hands = DryHands(run) if run.dry_run else SignalHands(run, job, keys)
    survives = hands.end(found.leftovers, ask)
    if survives is not None:
        return Epilog(left=f"of {job.subject} is left on GPU {labels}: {survives}", notes=notes)
    return Epilog(() if run.dry_run else found.leftovers, notes=notes)


class DryHands:
    """Says what would be done."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def end(self, leftovers: Sequence[Leftover], ask: Ask) -> str | None:
        """Say what would be ended, and how."""
        self._run.say(f"would end {_names(leftovers)} with SIG{ask.signal}: {ask.reason}")
        return None


class SignalHands:
    """Ends them by signals, in the journal with each step."""

    def __init__(self, run: Run, job: NodeJob, keys: Sequence[str]) -> None:
        self._run = run
        self._job = job
        self._keys = keys

    def end(self, leftovers: Sequence[Leftover], ask: Ask) -> str | None:
        """Ask them to end, wait for the grace, kill what is left; return what survives."""
        world, clock = self._run.world, self._run.world.clock
        first, *beside = [each.process for each in leftovers]
        tree = JobTree(
            world.proc,
            first,
            clock.monotonic_s,
            spare=lambda row: is_of_another_job(world, self._job, row.pid),
            beside=beside,
        )
        self._note(ask, _names(leftovers))
        tree.ask(signal.SIGTERM)
        until_s = clock.monotonic_s() + ask.grace_s
        while tree.living() and clock.monotonic_s() < until_s:
            clock.sleep(_LOOK_AGAIN_S)
        if not tree.living():
            self._came_of(ask, "all of it has ended")
            return None
        kill = Kill(ask.reason)
        self._note(kill, f"after {duration_for_people(ask.grace_s)}")
        survivors = tree.kill(_DIES_WITHIN_S)
        words = "; ".join(map(str, survivors)) or "all of it has ended"
        self._came_of(kill, words)
        return words if survivors else None

    def _note(self, action: Ask | Kill, about: str) -> None:
        reason = action.reason.with_facts(step=kind_of(action), processes_named=about)
        self._run.journal.action(self._job.subject, in_words(action), reason, self._keys)

    def _came_of(self, action: Ask | Kill, words: str) -> None:
        self._run.journal.outcome(self._job.subject, in_words(action), words, self._keys)


def _refused(run: Run, cards: Sequence[Gpu], leftovers: Sequence[Leftover], ask: Ask) -> Reason | None:
    """Return why they must be left alone: root protects one of them, or protections cannot be read."""
    proc, wall_s = run.world.proc, run.world.clock.wall_s()
    touched = Affected(
        frozenset(gpu.uuid for gpu in cards if not isinstance(gpu.uuid, Unknown)),
        tuple(
            AffectedProcess(pid, each.process.birth, proc.user(pid), proc.command(pid))
            for each in leftovers
            for pid in (each.process.pid,)
        ),
    )
    protections = [
        each for each in run.world.protections.active(wall_s) if each.by_user == _ROOT or each.id == _NOBODY
    ]
    (ruling,) = arbitrate(
        [Proposal(ask, touched)], at_s=run.world.clock.monotonic_s(), wall_s=wall_s, protections=protections
    )
    return ruling.refused


def _keys(job: NodeJob, cards: Sequence[Gpu], leftovers: Sequence[Leftover]) -> list[str]:
    gpus = [gpu_key(gpu.uuid) for gpu in cards if not isinstance(gpu.uuid, Unknown)]
    return [job.key, *gpus, *(process_key(each.process.pid, each.process.birth) for each in leftovers)]


def _names(leftovers: Sequence[Leftover]) -> str:
    return ", ".join(f"pid {each.process.pid} ({each.program}, shown by {each.proof})" for each in leftovers)
