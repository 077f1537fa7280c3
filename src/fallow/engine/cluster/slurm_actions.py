"""Act on jobs of Slurm: write into their comments and to their terminals, signal, cancel or requeue them.

Each action first asks the queue again whether it is still the same job: its number, its user and its start. Numbers
are used again, and a job that was requeued keeps its number and is another run. A task of an array is always named as
`12_3`: the number 12 alone, which one of the tasks has too, would mean all of them.
"""

import os
import re
from collections.abc import Sequence

from fallow.actuators.process.programs import Ran
from fallow.core.actions import Ask, CancelWarning, Kill, Warn, what_follows
from fallow.core.cluster import ClusterJob
from fallow.core.findings import Outcome
from fallow.core.ports import Clock
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.engine.cluster.slurm_commands import SlurmCommands, is_refusal
from fallow.readers.accounts import user_name
from fallow.readers.slurm import queue
from fallow.readers.slurm.queue import QueueRow

_LONGEST_COMMENT = 4096
_LONGEST_WARNING = 500
_OURS = re.compile(r" ?\[fallow: [^\[\]]*\]")
_GONE = Outcome(True, "it has ended")


class SlurmActions:
    """What can be done to one job. Every command that changes a job of Slurm is here."""

    def __init__(self, commands: SlurmCommands, clock: Clock) -> None:
        self._commands = commands
        self._clock = clock

    def way(self, job: ClusterJob, action: Ask | Kill) -> str:
        """Return what the action does, after "would"."""
        if action.requeues:
            return f"put it back into the queue (scontrol requeue {job.id})"
        if isinstance(action, Kill):
            return f"cancel it (scancel {job.id})"
        return f"send it SIG{action.signal} (scancel --signal={action.signal} --full {job.id})"

    def warn(self, job: ClusterJob, action: Warn) -> Outcome:
        """Write the warning into the job's comment, and to the terminal or the errors of the job."""
        row = self._same(job)
        if isinstance(row, Outcome):
            return Outcome(False, row.words)
        when = f"it will be {what_follows(action)} in {duration_for_people(action.ask_in_s)} unless it works"
        text = f"{action.because}; {when}. To keep it: fallow protect {job.key} --for 2h"
        warning = printable(text)[:_LONGEST_WARNING].replace("[", "(").replace("]", ")")
        commented = self._comment(job, row, warning)
        if not commented.ok:
            return commented
        told = self._commands.ask("scontrol", "notify", job.id, f"fallow: job {job.id}: {warning}")
        shown = isinstance(told, Ran) and told.ok
        return Outcome(True, f"{commented.words}, and to its output" if shown else commented.words)

    def cancel(self, job: ClusterJob, action: CancelWarning) -> Outcome:
        """Take the warning out of the comment, and tell the job so."""
        row = self._same(job)
        if isinstance(row, Outcome):
            return row
        done = self._comment(job, row, "")
        if done.ok:
            words = printable(f"fallow: job {job.id} goes on: {action.because}")[:_LONGEST_WARNING]
            self._commands.ask("scontrol", "notify", job.id, words)
        return done

    def ask(self, job: ClusterJob, action: Ask) -> Outcome:
        """Send the signal to all processes of the job, or put it back into the queue."""
        row = self._same(job)
        if isinstance(row, Outcome):
            return row
        if action.requeues:
            return self._requeue(job)
        words = (f"--signal={action.signal}", "--full", *_only(row), job.id)
        return _done(self._commands.ask("scancel", *words), f"SIG{action.signal} was sent by scancel")

    def kill(self, job: ClusterJob, action: Kill) -> Outcome:
        """Cancel the job, or put it back into the queue: Slurm sends SIGTERM, and SIGKILL after its KillWait."""
        row = self._same(job)
        if isinstance(row, Outcome):
            return row
        if action.requeues:
            return self._requeue(job)
        return _done(self._commands.ask("scancel", *_only(row), job.id), "cancelled by scancel")

    def _requeue(self, job: ClusterJob) -> Outcome:
        answer = self._commands.ask("scontrol", "requeue", job.id)
        return _done(answer, "put back into the queue by scontrol requeue")

    def _same(self, job: ClusterJob) -> QueueRow | Outcome:
        """Return the job as the queue has it now; an outcome if it is gone, another one, or not known."""
        if job.no_way is not None:
            return Outcome(False, job.no_way)
        options = ("--all", "--noheader", "--states=all", "--format", queue.FORMAT)
        answer = self._commands.ask("squeue", *options, f"--jobs={job.id}")
        if isinstance(answer, Unknown):
            return Outcome(False, answer.why)
        if not answer.ok:
            is_forgotten = b"Invalid job id specified" in answer.errors
            return _GONE if is_forgotten else Outcome(False, answer.failure)
        rows = queue.rows(answer.text)
        if isinstance(rows, Unknown):
            return Outcome(False, rows.why)
        held = [row for row in rows if row.id.partition("+")[0] == job.id and row.state in queue.HELD_STATES]
        if not held:
            return _GONE
        first = held[0]
        if isinstance(first.start_wall_s, Unknown) or first.start_wall_s != job.started_wall_s:
            return Outcome(False, "it was started again since it was judged, so it is left alone")
        if any(row.user != job.user for row in held):
            return Outcome(False, f"it is {first.user}'s, and not the job that was judged")
        if any(row.state != queue.RUNNING for row in held):
            return Outcome(False, "it is suspended")
        return first

    def _comment(self, job: ClusterJob, row: QueueRow, warning: str) -> Outcome:
        """Replace fallow's part of the comment; the rest of it stays as its user wrote it."""
        answer = self._commands.ask("squeue", "--all", "--noheader", "--format=%k", f"--jobs={row.id}")
        if isinstance(answer, Unknown) or not answer.ok:
            why = answer.why if isinstance(answer, Unknown) else answer.failure
            return Outcome(False, f"its comment cannot be read: {why}")
        before = answer.output.decode(errors="surrogateescape").removesuffix("\n")
        before = "" if before == "(null)" else before
        theirs = _OURS.sub("", before)
        after = f"{theirs} [fallow: {warning}]".lstrip(" ") if warning else theirs
        if after == before:
            return Outcome(True, "no warning was written down")
        if len(after) > _LONGEST_COMMENT or "\0" in after:
            return Outcome(True, "its comment is too long to add to it")
        done = self._commands.ask("scontrol", "update", f"JobId={job.id}", f"Comment={after}")
        return _done(done, "written into its comment" if warning else "taken out of its comment")


def _done(answer: Ran | Unknown, words: str) -> Outcome:
    if isinstance(answer, Unknown):
        return Outcome(False, f"whether it was done is unknown: {answer.why}")
    if is_refusal(answer):
        return Outcome(False, _right_missing(), not_permitted=True)
    if not answer.ok:
        return Outcome(False, f"Slurm refused: {answer.failure}")
    return Outcome(True, words)


def _only(row: QueueRow) -> Sequence[str]:
    """Return the options with which scancel itself refuses another job."""
    return (f"--user={row.user}", "--state=RUNNING")


def _right_missing() -> str:
    me = user_name(os.geteuid())
    return (
        f"Slurm does not let {me} do this to jobs of others: run fallow as root or as SlurmUser, or make {me} an "
        f"operator with: sacctmgr modify user {me} set AdminLevel=Operator"
    )
