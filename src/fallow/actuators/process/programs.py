"""Run other programs for fallow's own use: hooks, ssh, Slurm's commands, py-spy, systemctl.

Each has one limit on its time and one on its output, runs in a session of its own and gets no descriptor of ours. It
writes into files in memory, so a process that it leaves in the background keeps nobody waiting.
"""

import os
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO

from fallow.actuators.process import signals, spawn
from fallow.core.errors import FallowError
from fallow.core.process import Ended
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

MOST_BYTES = 1 << 28
_AT_ONCE = 32
_MEASURE_EVERY_S = 0.1
_DIES_WITHIN_S = 1.0  # unless it became another user, or is blocked in the kernel
_LONGEST_LINE = 300


@value
class Ran:
    """How a program ended, and what it printed."""

    ended: Ended | None
    """None if it was killed because it took too long or printed too much."""
    output: bytes = b""
    errors: bytes = b""
    too_long: bool = False
    """Whether it printed too much."""

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
    most_bytes: int = MOST_BYTES,
) -> Ran:
    """Run a program to its end; raise CommandNotFound or CannotRun if it cannot be started."""
    return _run_together([command], environ, limit_s, stdin, most_bytes)[0]


def run_many(
    commands: Sequence[Sequence[str]], environ: Mapping[str, str], limit_s: float, most_bytes: int = MOST_BYTES
) -> list[Ran]:
    """Run programs side by side, 32 at a time; return how each ended, in the same order."""
    ran: list[Ran] = []
    for first in range(0, len(commands), _AT_ONCE):
        ran += _run_together(commands[first : first + _AT_ONCE], environ, limit_s, b"", most_bytes)
    return ran


def ask(command: Sequence[str], environ: Mapping[str, str], limit_s: float) -> Ran | Unknown:
    """Run a program to its end; Unknown if it cannot be started, takes too long or prints too much."""
    name = os.path.basename(command[0])
    try:
        ran = run(command, environ, limit_s)
    except FallowError as error:
        return Unknown(str(error))
    if ran.too_long:
        return Unknown(f"{name} answered with more than {MOST_BYTES} bytes")
    if ran.ended is None:
        return Unknown(f"{name} did not answer within {duration_for_people(limit_s)}")
    return ran


class _Program:
    """One program that runs."""

    def __init__(self, process: "Popen[bytes]", output: FileIO, errors: FileIO, pidfd: int) -> None:
        self._process = process
        self._output = output
        self._errors = errors
        self.pidfd = pidfd

    def goes_on(self, most_bytes: int) -> bool:
        """Return whether it runs and has not printed too much."""
        return self._process.poll() is None and not self._is_too_long(most_bytes)

    def ran(self, most_bytes: int) -> Ran:
        """Return how it has ended, and what it has printed."""
        code = self._process.poll()
        too_long = self._is_too_long(most_bytes)
        ended = None
        if code is not None and not too_long:
            ended = Ended(code=code) if code >= 0 else Ended(by_signal=-code)
        return Ran(ended, _content(self._output, most_bytes), _content(self._errors, most_bytes), too_long)

    def _is_too_long(self, most_bytes: int) -> bool:
        return max(_size(self._output), _size(self._errors)) > most_bytes


@contextmanager
def _started(command: Sequence[str], environ: Mapping[str, str], stdin: bytes) -> Iterator[_Program]:
    """Start a program; at the end kill it with its group, unless it has ended by itself."""
    import subprocess  # noqa: PLC0415  `pick` and `run` start no other program

    path = spawn.find(command, environ)
    with _file_in_memory() as given, _file_in_memory() as output, _file_in_memory() as errors:
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                list(command),
                executable=path,
                env=dict(environ),
                stdin=given,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
        except OSError as error:
            raise spawn.failure(path, error) from None
        pidfd = os.pidfd_open(process.pid)
        try:
            yield _Program(process, output, errors, pidfd)
        finally:
            os.close(pidfd)
            if process.poll() is None:
                signals.kill_group(process.pid)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_DIES_WITHIN_S)


def _run_together(
    commands: Sequence[Sequence[str]], environ: Mapping[str, str], limit_s: float, stdin: bytes, most_bytes: int
) -> list[Ran]:
    spawn.keep_the_ends_of_children()
    until_s = time.monotonic() + limit_s
    with ExitStack() as stack:
        programs = [stack.enter_context(_started(command, environ, stdin)) for command in commands]
        while running := [each for each in programs if each.goes_on(most_bytes)]:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                break
            poll = select.poll()
            for each in running:
                poll.register(each.pidfd, select.POLLIN)
            poll.poll(min(left_s, _MEASURE_EVERY_S) * 1000)
        return [each.ran(most_bytes) for each in programs]


def _file_in_memory() -> FileIO:
    return FileIO(os.memfd_create("fallow"), "r+")


def _content(file: FileIO, most_bytes: int) -> bytes:
    return os.pread(file.fileno(), min(_size(file), most_bytes), 0)  # a seek would move the program's place as well


def _size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size
