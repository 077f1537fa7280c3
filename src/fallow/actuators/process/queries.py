"""Ask programs of the machine, such as Slurm's: all of their output, with limits on time and size."""

import os
import select
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.process import signals, spawn
from fallow.core.errors import FallowError
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

_AT_ONCE = 1 << 18
_KEPT_OF_ERRORS = 4096
_LONGEST_LINE = 300
_DIES_WITHIN_S = 5.0


@value
class Answer:
    """What a program that ended by itself printed, its exit code, and the end of what it said on stderr."""

    output: bytes
    code: int
    errors: str = ""

    @property
    def ok(self) -> bool:
        """Return whether it ended with exit code 0."""
        return self.code == 0

    @property
    def last_line(self) -> str:
        """Return the last line that it said on stderr, else on stdout: the reason, for a program that failed."""
        said = self.errors.strip() or self.output[-_KEPT_OF_ERRORS:].decode(errors="replace").strip()
        lines = said.splitlines()
        return printable(lines[-1].strip())[:_LONGEST_LINE] if lines else f"it ended with exit code {self.code}"


class Queries:
    """Asks programs, one at a time."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._now = monotonic_s

    def ask(
        self, command: Sequence[str], environ: Mapping[str, str], limit_s: float, most_bytes: int
    ) -> Answer | Unknown:
        """Run a program to its end; Unknown if it cannot be started, takes too long or prints too much."""
        name = os.path.basename(command[0])
        ours, its = os.pipe()
        errors, its_errors = os.pipe()
        try:
            try:
                path = spawn.find(command, environ)
                pid = spawn.start_helper(path, command, environ, its, errors=its_errors)
            except FallowError as error:
                return Unknown(str(error))
            finally:
                os.close(its)
                os.close(its_errors)
            output, said, why = self._listen(name, ours, errors, limit_s, most_bytes)
            if why is not None:
                signals.kill_group(pid)
            code = self._reaped(pid, limit_s if why is None else _DIES_WITHIN_S)
        finally:
            os.close(ours)
            os.close(errors)
        if why is not None:
            return why
        return Unknown(f"{name} did not end") if code is None else Answer(output, code, said)

    def _listen(
        self, name: str, ours: int, errors: int, limit_s: float, most_bytes: int
    ) -> tuple[bytes, str, Unknown | None]:
        """Read both until both are closed; return them, and why reading ended before that."""
        until_s = self._now() + limit_s
        parts: dict[int, list[bytes]] = {ours: [], errors: []}
        size = 0
        poll = select.poll()
        for fd in parts:
            poll.register(fd, select.POLLIN)
        left = 2
        why: Unknown | None = None
        while left:
            left_s = until_s - self._now()
            if left_s <= 0:
                why = Unknown(f"{name} did not answer within {duration_for_people(limit_s)}")
                break
            for fd, _ in poll.poll(left_s * 1000):
                said = os.read(fd, _AT_ONCE)
                if not said:
                    poll.unregister(fd)
                    left -= 1
                elif fd == errors:
                    parts[errors] = [b"".join((*parts[errors], said))[-_KEPT_OF_ERRORS:]]
                else:
                    parts[ours].append(said)
                    size += len(said)
            if size > most_bytes:
                why = Unknown(f"{name} answered with more than {most_bytes} bytes")
                break
        return b"".join(parts[ours]), b"".join(parts[errors]).decode(errors="replace"), why

    def _reaped(self, pid: int, limit_s: float) -> int | None:
        """Reap it; kill it first if it has closed its output and goes on. None if it is blocked in the kernel."""
        pidfd = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if not poll.poll(limit_s * 1000):
                signals.kill_group(pid)
                if not poll.poll(_DIES_WITHIN_S * 1000):
                    return None
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        finally:
            os.close(pidfd)
