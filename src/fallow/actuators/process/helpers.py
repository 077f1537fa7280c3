"""Run programs for fallow's own use, with limits on time and output: hooks, py-spy, systemctl."""

import os
import select
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.process import signals, spawn
from fallow.core.process import Ended
from fallow.core.value import value

_KEPT_BYTES = 64 * 1024
_DIES_WITHIN_S = 1.0  # unless it is blocked in the kernel


@value
class Ran:
    """How a helper ended, None if it was killed after its time; and the end of its output."""

    ended: Ended | None
    output: str

    @property
    def ok(self) -> bool:
        """Return whether it ended by itself with exit code 0."""
        return self.ended is not None and self.ended.exit_code == 0

    @property
    def last_line(self) -> str:
        """Return the last line of its output: for a program that fails, mostly the reason."""
        lines = self.output.strip().splitlines()
        return lines[-1].strip() if lines else ""


class Helpers:
    """Runs helpers, one at a time and to their end, so that none is found among our children."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._now = monotonic_s
        self.sessions: set[int] = set()
        """The sessions of helpers: what a hook leaves running there does not belong to the job."""

    def run(
        self, command: Sequence[str], environ: Mapping[str, str], limit_s: float, reads: bytes | None = None
    ) -> Ran:
        """Run a program to its end; raise CommandNotFound or CannotRun if it cannot be started.

        `reads` is its stdin.
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
        """Return the output until it ends, and whether it did in time. Its children may keep the pipe open."""
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
            signals.kill_group(pid)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if poll.poll(_DIES_WITHIN_S * 1000):
                _end_of(pid)
            return output, False
        finally:
            os.close(pidfd)


def _end_of(pid: int) -> Ended:
    """Reap it; return how it ended."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Ended(code=code) if code >= 0 else Ended(by_signal=-code)


def _held_in_memory(content: bytes) -> int:
    """Return a file in memory with this content: it takes any length at once."""
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
