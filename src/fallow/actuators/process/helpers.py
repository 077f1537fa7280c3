"""Programs that fallow runs for its own use, bounded in time and in what they say: hooks, py-spy, systemctl."""

import os
import select
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.process import signals, spawn
from fallow.core.process import Ended
from fallow.core.value import value

_KEPT_BYTES = 64 * 1024
_DIES_WITHIN_S = 1.0  # unless the kernel holds it


@value
class Ran:
    """How a helper ended, None if its time was over and it was killed; and the last of what it said."""

    ended: Ended | None
    output: str

    @property
    def ok(self) -> bool:
        """Whether it ended by itself and is content."""
        return self.ended is not None and self.ended.exit_code == 0

    @property
    def last_line(self) -> str:
        """What a program that fails says last is most often why."""
        lines = self.output.strip().splitlines()
        return lines[-1].strip() if lines else ""


class Helpers:
    """Runs helpers, one at a time and to their end: nobody else ever finds one among our children."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._now = monotonic_s
        self.sessions: set[int] = set()
        """The sessions that helpers began: what a hook leaves running there is not the job's."""

    def run(
        self, command: Sequence[str], environ: Mapping[str, str], limit_s: float, reads: bytes | None = None
    ) -> Ran:
        """Run a program to its end; CommandNotFound or CannotRun if it cannot be started.

        `reads`: what it finds on its stdin.
        """
        path = spawn.find(command, environ)
        given = None if reads is None else _held_in_memory(reads)
        ours, its = os.pipe()
        try:
            try:
                pid = spawn.start_helper(path, command, environ, its, given)
            finally:
                os.close(its)
                if given is not None:
                    os.close(given)
            self.sessions.add(pid)
            output, in_time = self._listen(pid, ours, limit_s)
        finally:
            os.close(ours)
        return Ran(_end_of(pid) if in_time else None, output.decode(errors="replace"))

    def _listen(self, pid: int, ours: int, limit_s: float) -> tuple[bytes, bool]:
        """What it says until it ends, and whether it did in time. What it leaves running may keep the pipe open."""
        until_s = self._now() + limit_s
        output = b""
        pidfd = os.pidfd_open(pid)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(ours, select.POLLIN)
        os.set_blocking(ours, False)
        try:
            while (left_s := until_s - self._now()) > 0:
                ready = [fd for fd, _ in poll.poll(left_s * 1000)]
                said = _read(ours)
                output = (output + said)[-_KEPT_BYTES:]
                if pidfd in ready:
                    return output, True
                if ready and not said:  # it has closed its output and goes on
                    poll.unregister(ours)
            signals.kill_helper(pid)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if poll.poll(_DIES_WITHIN_S * 1000):
                os.waitpid(pid, 0)
            return output, False
        finally:
            os.close(pidfd)


def _held_in_memory(content: bytes) -> int:
    """A file without a name: it takes any length at once, and is on no disk."""
    fd = os.memfd_create("fallow")
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _KEPT_BYTES)
    except BlockingIOError:
        return b""


def _end_of(pid: int) -> Ended:
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Ended(code=code) if code >= 0 else Ended(by_signal=-code)
