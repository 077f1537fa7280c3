"""Run the commands and send the notices that people configured."""

from collections.abc import Mapping

from fallow.actuators.host import become_user, notice
from fallow.actuators.process import programs
from fallow.actuators.process.signals import how_it_ended
from fallow.core.account import RunAs
from fallow.core.errors import CannotRun, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.units import program_name

_SHELL_LIMIT_S = 10.0
_COMMAND_LIMIT_S = 86400.0  # an upload may take long; one that never ends must not keep the machine on


class SystemHooks:
    """Runs commands and sends notices, each in its own process and with a time limit."""

    def __init__(
        self,
        environ: Mapping[str, str],
        runs_as: RunAs | None = None,
        *,
        command_limit_s: float = _COMMAND_LIMIT_S,
        tells_output: bool = True,
    ) -> None:
        """`environ` is ours.

        `runs_as`: which user commands run as, None for this one. `tells_output`: whether the last line of a command
        is in its outcome, which everybody reads. That of another user's command never is.
        """
        self._environ = environ
        self._runs_as = RunAs(None, dict(environ)) if runs_as is None else runs_as
        self._command_limit_s = command_limit_s
        self._tells_output = tells_output

    def run_command(self, line: str, variables: Mapping[str, str]) -> Outcome:
        """Run a line in a shell, to its end, with these variables; what it leaves in the background is left alone."""
        name = program_name(line)  # arguments may be secret, and many read the outcome
        shell, limit_s = ["/bin/sh", "-c", line], self._command_limit_s
        account, environ = self._runs_as.account, {**self._runs_as.environ, **variables}
        try:
            if account is None:
                ran = programs.run(shell, environ, limit_s)
            else:
                ran = become_user.run_as(account, shell, environ, limit_s, self._environ)
        except CannotRun as error:
            return Outcome(False, f"{name!r} was not run: {error}")
        tells = self._tells_output and account is None and bool(ran.last_line)
        said = f"; it said: {ran.last_line[:200]}" if tells else ""
        if ran.ended is None:
            return Outcome(False, f"{name!r} was killed after {limit_s:g} s{said}")
        return Outcome(ran.ok, f"{name!r} {'ended well' if ran.ok else how_it_ended(ran.ended)}{said}")

    def notify(self, url: str, title: str, text: str) -> Outcome:
        """Send a notice from a separate process, so that a service that does not answer delays nothing else."""
        return notice.send(self._environ, [url], title, text)[0]


def unreadable(line: str, environ: Mapping[str, str]) -> WrongUsage | None:
    """Return why a shell could never run this line; None if it can be parsed."""
    read = programs.run(["/bin/sh", "-n", "-c", line], environ, _SHELL_LIMIT_S)
    return None if read.ok else WrongUsage(f"a command to run is no line that a shell can read: {read.last_line}")


class DryRunHooks:
    """Says what would be done, and does nothing."""

    def run_command(self, line: str, variables: Mapping[str, str]) -> Outcome:  # noqa: ARG002  as the other one has it
        """Only say what would be done."""
        return Outcome(True, f"would run {program_name(line)!r}")

    def notify(self, url: str, title: str, text: str) -> Outcome:
        """Only say what would be done."""
        return Outcome(True, f"would tell {notice.without_secrets(url)}: {title}: {text}")


Hooks = SystemHooks | DryRunHooks
