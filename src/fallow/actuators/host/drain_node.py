"""Take a node out of Slurm's service: the only file that runs `scontrol update node`."""

import re
from collections.abc import Callable, Mapping

from fallow.actuators.process.helpers import Helpers
from fallow.core.errors import FallowError
from fallow.core.findings import Outcome
from fallow.core.units import printable

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_LIMIT_S = 10.0
_LONGEST_REASON = 200
_OUT_OF_SERVICE = ("DRAIN", "DOWN", "FAIL", "MAINT")


class DrainsNode:
    """Drains nodes through scontrol."""

    def __init__(self, environ: Mapping[str, str], monotonic_s: Callable[[], float]) -> None:
        self._environ = environ
        self._helpers = Helpers(monotonic_s)

    def __call__(self, node: str, reason: str) -> Outcome:
        """Drain the node, unless it is out of service already: the reason that it has then is somebody else's."""
        if not _NODE.fullmatch(node):
            return Outcome(False, f"{printable(node)[:64]!r} is not the name of a node")
        shown = self._run("show", "node", node, "--oneliner")
        if isinstance(shown, Outcome):
            return shown
        word = re.search(r"(?:^| )State=(\S+)", shown)
        if word is None:
            return Outcome(False, "scontrol does not say the state of the node")
        if any(each in word[1] for each in _OUT_OF_SERVICE):
            return Outcome(True, f"it is {printable(word[1])} already")
        words = printable(f"fallow: {reason}")[:_LONGEST_REASON]
        done = self._run("update", f"NodeName={node}", "State=DRAIN", f"Reason={words}")
        return done if isinstance(done, Outcome) else Outcome(True, "it is drained")

    def _run(self, *words: str) -> str | Outcome:
        """Return what scontrol printed, or why that failed."""
        try:
            ran = self._helpers.run(("scontrol", *words), self._environ, _LIMIT_S)
        except FallowError as error:
            return Outcome(False, str(error))
        if not ran.in_time:
            return Outcome(False, f"scontrol did not end within {_LIMIT_S:g} s")
        return ran.output if ran.ok else Outcome(False, printable(ran.last_line)[:_LONGEST_REASON])
