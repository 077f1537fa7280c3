"""Ask programs of the machine, such as Slurm's: all of their output, with limits on time and size."""

import os
from collections.abc import Callable, Mapping, Sequence

from fallow.actuators.process.side_by_side import run_all
from fallow.core.errors import FallowError
from fallow.core.units import duration_for_people, printable
from fallow.core.unknown import Unknown
from fallow.core.value import value

_KEPT_OF_ERRORS = 4096
_LONGEST_LINE = 300


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
        try:
            [heard] = run_all([command], environ, self._now, limit_s, most_bytes)
        except FallowError as error:
            return Unknown(str(error))
        if heard.too_long:
            return Unknown(f"{name} answered with more than {most_bytes} bytes")
        if heard.ended is None:
            return Unknown(f"{name} did not answer within {duration_for_people(limit_s)}")
        return Answer(heard.output, heard.ended.exit_code, heard.errors.decode(errors="replace"))
