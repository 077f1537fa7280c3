"""Run other programs for fallow's own use: hooks, ssh, Slurm's commands, py-spy, systemctl.

Each has a limit on its time, runs in a session of its own and gets no descriptor of ours. Its output is read until it
ends, and then closed: what it leaves in the background keeps nobody waiting. Only the end of a long output is kept.
"""

import os
import select
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from io import FileIO
from signal import SIGKILL

from fallow.actuators.process import signals, spawn
from fallow.core.errors import FallowError
from fallow.core.process import Ended
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

_MOST_BYTES = 1 << 20
_AT_ONCE = 32
_PIPE_HOLDS = 1 << 20  # at most, so one read takes all that is in it
_DIES_WITHIN_S = 1.0  # unless it became another user, or is blocked in the kernel
_LONGEST_LINE = 300


@value
class Ran:
    """How a program ended, and what it printed."""

    ended: Ended | None
    """None if it was killed because it took too long."""
    output: bytes = b""
    errors: bytes = b""
    cut: bool = False
    """Whether it printed more than is kept, which is the end."""

    @property
    def ok(self) -> bool:
        """Return whether it ended by itself with exit code 0."""
        return self.ended is not None and self.ended.exit_code == 0

    @property
    def text(self) -> str:
        """Return its output as text."""
        return self.output.decode(errors="replace")

    @property
    def last_line(self) -> str:
        """Return the last line that it wrote to stderr, else to stdout: the reason, for a program that failed."""
        said = self.errors.strip() or self.output.strip()
        lines = said[-4 * _LONGEST_LINE :].decode(errors="replace").splitlines()
        return printable(lines[-1].strip())[:_LONGEST_LINE] if lines else ""

    @property
    def failure(self) -> str:
        """Return why it failed: its last line, else its exit code."""
        return self.last_line or ("no answer" if self.ended is None else f"exit code {self.ended.exit_code}")


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    limit_s: float,
    stdin: bytes = b"",
    most_bytes: int = _MOST_BYTES,
) -> Ran:
    """Run a program to its end; raise CannotRun if it cannot be started."""
    return run_many([command], environ, limit_s, most_bytes, stdin)[0]


def run_many(
    commands: Sequence[Sequence[str]],
    environ: Mapping[str, str],
    limit_s: float,
    most_bytes: int = _MOST_BYTES,
    stdin: bytes = b"",
) -> list[Ran]:
    """Run programs side by side, 32 at a time; return how each ended, in the same order.

    Those that still run when their time is over, or when this is interrupted, are killed.
    """
    if len(commands) > _AT_ONCE:
        first, rest = commands[:_AT_ONCE], commands[_AT_ONCE:]
        return [each for some in (first, rest) for each in run_many(some, environ, limit_s, most_bytes, stdin)]
    until_s, programs = time.monotonic() + limit_s, []
    with ExitStack() as stack:
        for command in commands:
            programs.append(_Program(command, environ, stdin, most_bytes))
            stack.callback(programs[-1].close)
        running = programs
        while running and (left_s := until_s - time.monotonic()) > 0:
            poll = select.poll()
            for fd in set().union(*(each.fds for each in running)):
                poll.register(fd, select.POLLIN)
            readable = {fd for fd, _ in poll.poll(left_s * 1000)}
            running = [each for each in running if each.goes_on(readable)]
        return [each.ran() for each in programs]


def ask(
    command: Sequence[str], environ: Mapping[str, str], limit_s: float, most_bytes: int = _MOST_BYTES
) -> Ran | Unknown:
    """Run a program to its end; Unknown if it cannot be started, takes too long or prints too much."""
    name = os.path.basename(command[0])
    try:
        ran = run(command, environ, limit_s, most_bytes=most_bytes)
    except FallowError as error:
        return Unknown(str(error))
    if ran.cut:
        return Unknown(f"{name} answered with more than {most_bytes} bytes")
    if ran.ended is None:
        return Unknown(f"{name} did not answer within {duration_for_people(limit_s)}")
    return ran


class _Program:
    """A program that runs, and what it has printed."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], stdin: bytes, most_bytes: int) -> None:
        from subprocess import PIPE, Popen  # noqa: PLC0415  `pick` and `run` start no other program

        path = spawn.find(command, environ)
        with FileIO(os.memfd_create("stdin"), "r+") as given:
            given.write(stdin)
            given.seek(0)
            try:
                self._process = Popen(
                    command, 0, path, stdin=given, stdout=PIPE, stderr=PIPE, env=environ, start_new_session=True
                )
            except OSError as error:
                raise spawn.failure(path, error) from None
        self._most_bytes = most_bytes
        self._cut = False
        self._pidfd = os.pidfd_open(self._process.pid)
        self._pipes = [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
        self._printed = {pipe.fileno(): bytearray() for pipe in self._pipes}
        for fd in self._printed:
            os.set_blocking(fd, False)
        self.fds = {self._pidfd, *self._printed}
        """What can be read when it has printed something or has ended."""

    def goes_on(self, readable: Set[int]) -> bool:
        """Read what it has printed; return whether it runs."""
        if self.fds.isdisjoint(readable):
            return True
        ended = self._process.poll() is not None  # before its pipes are read: then nothing comes after its end
        for fd in self.fds & self._printed.keys():
            with suppress(BlockingIOError):
                more = os.read(fd, _PIPE_HOLDS)
                if not more:
                    self.fds.remove(fd)
                self._printed[fd] += more
                if len(self._printed[fd]) > self._most_bytes:
                    self._cut = True
                    del self._printed[fd][: -self._most_bytes]
        return not ended

    def ran(self) -> Ran:
        """Return how it ended, and what it printed."""
        code, ended = self._process.returncode, None
        if code is not None:
            ended = Ended(code=code) if code >= 0 else Ended(by_signal=-code)
        output, errors = (bytes(printed) for printed in self._printed.values())
        return Ran(ended, output, errors, self._cut)

    def close(self) -> None:
        """Close its pipes, and kill it with its group unless it has ended by itself."""
        from subprocess import TimeoutExpired  # noqa: PLC0415  as above

        for pipe in self._pipes:
            pipe.close()
        os.close(self._pidfd)
        if self._process.poll() is None:
            signals.signal_group(self._process.pid, SIGKILL)
            with suppress(TimeoutExpired):
                self._process.wait(_DIES_WITHIN_S)
