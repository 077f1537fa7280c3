"""Run other programs for fallow's own use: hooks, ssh, Slurm's commands, py-spy, systemctl.

Each has one limit on its time and one on its output, runs in a session of its own and gets no descriptor of ours.
Its output is read until it ends, and then closed: what it leaves in the background keeps nobody waiting.
"""

import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from signal import SIGKILL

from fallow.actuators.process import signals, spawn
from fallow.core.errors import FallowError
from fallow.core.process import Ended
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

MOST_BYTES = 1 << 20
_AT_ONCE = 32
_PIPE_HOLDS = 1 << 20  # at most, so one read takes all that is in it
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
    called_off: int | None = None,
) -> Ran:
    """Run a program to its end; raise CommandNotFound or CannotRun if it cannot be started.

    It is killed as soon as the descriptor `called_off` can be read.
    """
    from subprocess import PIPE, Popen, TimeoutExpired  # noqa: PLC0415  `pick` and `run` start no other program

    path, until_s = spawn.find(command, environ), time.monotonic() + limit_s
    with FileIO(os.memfd_create("stdin"), "r+") as given:
        given.write(stdin)
        given.seek(0)
        try:
            process = Popen(
                command, 0, path, stdin=given, stdout=PIPE, stderr=PIPE, env=environ, start_new_session=True
            )
        except OSError as error:
            raise spawn.failure(path, error) from None
    pidfd, pipes = os.pidfd_open(process.pid), [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    try:
        output, errors = _read(process, pidfd, [pipe.fileno() for pipe in pipes], until_s, most_bytes, called_off)
        code = process.returncode
    finally:
        for pipe in pipes:
            pipe.close()
        if process.poll() is None:
            signals.signal_group(process.pid, SIGKILL)
            with suppress(TimeoutExpired):
                process.wait(_DIES_WITHIN_S)
        os.close(pidfd)
    too_long = max(len(output), len(errors)) > most_bytes
    ended = None
    if code is not None and not too_long:
        ended = Ended(code=code) if code >= 0 else Ended(by_signal=-code)
    return Ran(ended, bytes(output[:most_bytes]), bytes(errors[:most_bytes]), too_long)


def _read(
    process: "Popen[bytes]",
    pidfd: int,
    pipes: Sequence[int],
    until_s: float,
    most_bytes: int,
    called_off: int | None,
) -> list[bytearray]:
    """Return what the program prints until it ends, its time is over, or it has printed too much."""
    printed = {fd: bytearray() for fd in pipes}
    poll, still_open = select.poll(), set(pipes)
    for fd in (pidfd, *pipes):
        os.set_blocking(fd, False)
        poll.register(fd, select.POLLIN)
    if called_off is not None:
        poll.register(called_off, select.POLLIN)
    while process.returncode is None and max(map(len, printed.values())) <= most_bytes:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            break
        if (called_off, select.POLLIN) in poll.poll(left_s * 1000):
            break
        process.poll()  # before what it has printed is read: then nothing comes after its end
        for fd in tuple(still_open):
            with suppress(BlockingIOError):
                more = os.read(fd, _PIPE_HOLDS)
                printed[fd] += more
                if not more:
                    still_open.remove(fd)
                    poll.unregister(fd)
    return list(printed.values())


def run_many(
    commands: Sequence[Sequence[str]], environ: Mapping[str, str], limit_s: float, most_bytes: int = MOST_BYTES
) -> list[Ran]:
    """Run programs side by side, 32 at a time; return how each ended, in the same order. Ctrl-C kills all of them."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  loaded only to ask many hosts

    with FileIO(os.eventfd(0), "r+") as called_off, ThreadPoolExecutor(_AT_ONCE) as pool:
        off = called_off.fileno()
        try:
            return list(pool.map(lambda each: run(each, environ, limit_s, b"", most_bytes, off), commands))
        except BaseException:
            os.eventfd_write(off, 1)
            raise


def ask(
    command: Sequence[str], environ: Mapping[str, str], limit_s: float, most_bytes: int = MOST_BYTES
) -> Ran | Unknown:
    """Run a program to its end; Unknown if it cannot be started, takes too long or prints too much."""
    name = os.path.basename(command[0])
    try:
        ran = run(command, environ, limit_s, most_bytes=most_bytes)
    except FallowError as error:
        return Unknown(str(error))
    if ran.too_long:
        return Unknown(f"{name} answered with more than {most_bytes} bytes")
    if ran.ended is None:
        return Unknown(f"{name} did not answer within {duration_for_people(limit_s)}")
    return ran
