"""Run several programs side by side for fallow's own use, each with limits on its time and its output."""

import os
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from fallow.actuators.process import signals, spawn
from fallow.core.process import Ended
from fallow.core.value import value

_AT_ONCE = 32
_CHUNK_BYTES = 64 * 1024
_MOST_ERROR_BYTES = 16 * 1024
_DIES_WITHIN_S = 1.0  # unless it is blocked in the kernel


@value
class Heard:
    """What a program wrote, and how it ended; None if it was killed after its time or for too much output."""

    ended: Ended | None
    output: bytes
    errors: bytes
    too_long: bool = False


class _Running:
    """One program that runs: its pipes, and what came out of them so far."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], until_s: float, most_bytes: int) -> None:
        self.until_s = until_s
        self.too_long = False
        self._most_bytes = most_bytes
        path = spawn.find(command, environ)
        self.output, its_output = os.pipe()
        self.errors, its_errors = os.pipe()
        try:
            self.pid = spawn.start_helper(path, command, environ, its_output, errors=its_errors)
        except BaseException:
            os.close(self.output)
            os.close(self.errors)
            raise
        finally:
            os.close(its_output)
            os.close(its_errors)
        self.pidfd = os.pidfd_open(self.pid)
        self.said = {self.output: b"", self.errors: b""}
        self.open = set(self.said)
        """The pipes that the program has not closed."""
        for fd in self.said:
            os.set_blocking(fd, False)

    def read(self, fd: int) -> bool:
        """Take what is in a pipe now; return False once it is closed, or the program has said too much."""
        while True:
            try:
                chunk = os.read(fd, _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            if fd == self.errors:
                self.said[fd] = (self.said[fd] + chunk)[-_MOST_ERROR_BYTES:]
                return True
            self.said[fd] += chunk
            if len(self.said[fd]) > self._most_bytes:
                self.too_long = True
                return False

    def end(self, *, by_itself: bool) -> Heard:
        """Read what is left, reap it or kill it, and return what was heard."""
        for fd in self.said:
            self.read(fd)
        ended = None
        if not by_itself:
            signals.kill_group(self.pid)
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if poll.poll(_DIES_WITHIN_S * 1000):
            with suppress(ChildProcessError):
                code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                ended = Ended(code=code) if code >= 0 else Ended(by_signal=-code)
        for fd in (self.pidfd, *self.said):
            os.close(fd)
        return Heard(ended if by_itself else None, self.said[self.output], self.said[self.errors], self.too_long)


def run_all(
    commands: Sequence[Sequence[str]],
    environ: Mapping[str, str],
    monotonic_s: Callable[[], float],
    limit_s: float,
    most_bytes: int,
) -> list[Heard]:
    """Run each to its end, 32 at a time, in sessions of their own without a stdin; return them in the same order.

    Each may take `limit_s` from its own start. Raise CommandNotFound or CannotRun if one cannot be started.
    """
    waiting = list(enumerate(commands))
    heard: dict[int, Heard] = {}
    running: dict[int, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < _AT_ONCE:
                at, command = waiting.pop(0)
                running[at] = _Running(command, environ, monotonic_s() + limit_s, most_bytes)
            ended = _wait(running, min(each.until_s for each in running.values()) - monotonic_s())
            now_s = monotonic_s()
            for at, each in list(running.items()):
                if at in ended or each.too_long or now_s >= each.until_s:
                    heard[at] = running.pop(at).end(by_itself=at in ended and not each.too_long)
    finally:
        for each in running.values():
            each.end(by_itself=False)
    return [heard[at] for at in range(len(commands))]


def _wait(running: Mapping[int, _Running], timeout_s: float) -> set[int]:
    """Read what the programs say until one of them has ended or said too much, or time is over; return who ended.

    The end of a pipe is no end: a connection that ssh shares with later ones keeps it open.
    """
    poll = select.poll()
    pipes: dict[int, _Running] = {}
    ends: dict[int, int] = {}
    for at, each in running.items():
        ends[each.pidfd] = at
        poll.register(each.pidfd, select.POLLIN)
        for fd in each.open:
            pipes[fd] = each
            poll.register(fd, select.POLLIN)
    ready = [fd for fd, _ in poll.poll(max(0.0, timeout_s) * 1000)]
    for fd in ready:
        if fd in pipes and not pipes[fd].read(fd):
            pipes[fd].open.discard(fd)
    return {ends[fd] for fd in ready if fd in ends}
