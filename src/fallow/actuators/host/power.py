"""The only file that turns the machine off or restarts it, and announces that."""

import os
from collections.abc import Mapping
from contextlib import suppress

from fallow.actuators.process import programs
from fallow.actuators.process.spawn import find
from fallow.core.actions import PowerOff, Reboot, in_words
from fallow.core.errors import CannotRun, NotPermitted
from fallow.core.findings import Outcome
from fallow.core.units import printable

_ANSWERS_WITHIN_S = 30.0
_NO_COMMAND = "there is neither systemctl nor shutdown on the PATH"
_PERMIT = "run as root, or permit it with polkit"
_LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")
_WORDS = {PowerOff: ("poweroff", "-h", "CanPowerOff"), Reboot: ("reboot", "-r", "CanReboot")}
"""The word of systemctl, the option of shutdown(8) and the question to logind."""
PowerAction = PowerOff | Reboot


class SystemPower:
    """Controls power through systemctl if it is on the PATH, else shutdown(8)."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def can(self, action: PowerAction) -> NotPermitted | None:
        """Return None for root, and for others if logind permits it without a password; else why not."""
        if self._command(action, "") is None:
            return NotPermitted(
                f"cannot {in_words(action)}: {_NO_COMMAND}", "add the folder of one of them to the PATH"
            )
        if os.geteuid() == 0:
            return None
        question = _WORDS[type(action)][2]
        try:
            answer = programs.run(["busctl", "call", *_LOGIND, question], self._environ, _ANSWERS_WITHIN_S)
        except CannotRun:
            why = f"not permitted to {in_words(action)}: not root, and without busctl logind cannot be asked"
            return NotPermitted(why, _PERMIT)
        if answer.ok and b'"yes"' in answer.output:
            return None
        said = answer.last_line or "nothing"
        why = f"not permitted to {in_words(action)}: not root, and logind, asked {question}, answers {said}"
        return NotPermitted(why, _PERMIT)

    def do(self, action: PowerAction, reason: str) -> Outcome:
        """Make the system shut down or reboot. If this succeeds, that has begun."""
        command = self._command(action, reason)
        if command is None:
            return Outcome(False, f"could not {in_words(action)}: {_NO_COMMAND}")
        try:
            ran = programs.run(command, self._environ, _ANSWERS_WITHIN_S)
        except CannotRun as error:
            return Outcome(False, f"could not {in_words(action)}: {error}")
        if ran.ok:
            return Outcome(True, f"{' '.join(command[:2])}: {reason}")
        return Outcome(False, f"could not {in_words(action)}: {command[0]} says: {ran.failure}")

    def announce(self, text: str) -> Outcome:
        """Announce through wall(1)."""
        # On its stdin: an argument could be the name of a file, which root's wall would show to all users.
        line = f"fallow: {printable(text)}\n".encode()
        try:
            ran = programs.run(["wall"], self._environ, _ANSWERS_WITHIN_S, stdin=line)
        except CannotRun as error:
            return Outcome(False, f"could not announce it: {error}")
        return Outcome(ran.ok, "announced to all terminals" if ran.ok else f"wall failed: {ran.failure}")

    def _command(self, action: PowerAction, reason: str) -> list[str] | None:
        word, option, _ = _WORDS[type(action)]
        for command in (["systemctl", word], ["shutdown", option, "now", printable(reason)]):
            with suppress(CannotRun):
                find(command, self._environ)
                return command
        return None


class DryRunPower:
    """Says what would be done, and does nothing."""

    def __init__(self, real: SystemPower, why: str = "") -> None:
        """`why`: what makes it a dry run where nobody asked for one; it is said with everything."""
        self._real = real
        self._why = f" ({why})" if why else ""

    def can(self, action: PowerAction) -> NotPermitted | None:
        """Return what the real one returns: a dry run is there to find that out."""
        return self._real.can(action)

    def do(self, action: PowerAction, reason: str) -> Outcome:
        """Only say what would be done."""
        return Outcome(True, f"would {in_words(action)}{self._why}: {reason}")

    def announce(self, text: str) -> Outcome:
        """Only say what would be done."""
        return Outcome(True, f"would announce to all terminals{self._why}: {text}")


Power = SystemPower | DryRunPower
