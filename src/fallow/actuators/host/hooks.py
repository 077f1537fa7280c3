"""Run the commands and send the notices that people configured."""

from collections.abc import Mapping
from types import MappingProxyType

from fallow.actuators.host import notice
from fallow.actuators.process import programs
from fallow.actuators.process.signals import signal_name
from fallow.core.account import Account
from fallow.core.errors import CannotRun, CommandNotFound, WrongUsage
from fallow.core.findings import Outcome
from fallow.core.process import Ended
from fallow.core.units import program_name

_NO_MORE: Mapping[str, str] = MappingProxyType({})
_SHELL_LIMIT_S = 10.0
_COMMAND_LIMIT_S = 86400.0  # an upload may take long; one that never ends must not keep the machine on


class SystemHooks:
    """Runs commands and sends notices, each in its own process and with a time limit."""

    def __init__(
        self,
        environ: Mapping[str, str],
        runs_as: tuple[Account | None, Mapping[str, str]] | None = None,
        *,
        command_limit_s: float = _COMMAND_LIMIT_S,
        tells_output: bool = True,
    ) -> None:
        """`environ` is used for sending notices.

        `runs_as`: which user commands run as, None for this one, and in which environment. `tells_output`: whether
        the last line of a command is in its outcome, which everybody reads. That of another user's command never is.
        """
        self._environ = environ
        self._runs_as = runs_as
        self._command_limit_s = command_limit_s
        self._tells_output = tells_output

    def run_command(self, line: str, environ: Mapping[str, str], more: Mapping[str, str] = _NO_MORE) -> Outcome:
        """Run a line in a shell, to its end; what it leaves in the background is left alone.

        `more`: variables for it, whichever user it runs as.
        """
        name = program_name(line)  # arguments may be secret, and many read the outcome
        shell = ["/bin/sh", "-c", line]
        account, its_environ = (None, environ) if self._runs_as is None else self._runs_as
        its_environ = {**its_environ, **more}
        try:
            if account is None:
                ran = programs.run(shell, its_environ, self._command_limit_s)
            else:
                from fallow.actuators.host import become_user  # noqa: PLC0415  loaded only to become another user

                order = become_user.order(account, shell, its_environ)
                ran = programs.run(become_user.program(), environ, self._command_limit_s, order)
        except (CommandNotFound, CannotRun) as error:
            return Outcome(False, f"{name!r} was not run: {error}")
        tells = self._tells_output and account is None and bool(ran.last_line)
        said = f"; it said: {ran.last_line[:200]}" if tells else ""
        if ran.too_long:
            return Outcome(False, f"{name!r} was killed because it printed more than {programs.MOST_BYTES >> 20} MiB")
        if ran.ended is None:
            return Outcome(False, f"{name!r} was killed after {self._command_limit_s:g} s{said}")
        return Outcome(ran.ok, f"{name!r} {_in_words(ran.ended)}{said}")

    def notify(self, url: str, title: str, text: str) -> Outcome:
        """Send a notice from a separate process, so that a service that does not answer delays nothing else."""
        return notice.send(self._environ, [url], title, text)[0]


def unreadable(line: str, environ: Mapping[str, str]) -> WrongUsage | None:
    """Return why a shell could never run this line; None if it can be parsed."""
    read = programs.run(["/bin/sh", "-n", "-c", line], environ, _SHELL_LIMIT_S)
    return None if read.ok else WrongUsage(f"a command to run is no line that a shell can read: {read.last_line}")


class DryRunHooks:
    """Says what would be done, and does nothing."""

    def run_command(self, line: str, environ: Mapping[str, str], more: Mapping[str, str] = _NO_MORE) -> Outcome:  # noqa: ARG002  as the other one has it
        """Only say what would be done."""
        return Outcome(True, f"would run {program_name(line)!r}")

    def notify(self, url: str, title: str, text: str) -> Outcome:
        """Only say what would be done."""
        return Outcome(True, f"would tell {notice.without_secrets(url)}: {title}: {text}")


Hooks = SystemHooks | DryRunHooks


def _in_words(ended: Ended) -> str:
    if ended.by_signal is None:
        return "ended well" if ended.code == 0 else f"ended with exit code {ended.code}"
    return f"died of {signal_name(ended.by_signal)}"
