"""Write fallow's messages to stderr, as text or as JSON lines."""

import os
import sys
from collections.abc import Callable

from fallow.core.units import printable
from fallow.interfaces.render.stream import shows_colour

_PLAIN = "fallow:"
_RED = f"\x1b[31m{_PLAIN}\x1b[0m"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.interfaces.stderr_thread import StderrThread


class Stderr:
    """Writes messages to stderr. Results go to stdout and never through here."""

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        self.verbose = False
        self.as_json = False
        self._last = ""
        self._beside: StderrThread | None = None

    @property
    def on_a_terminal(self) -> bool:
        """Return whether a person reads stderr, and not a log."""
        return sys.stderr is not None and not self.as_json and sys.stderr.isatty()

    @property
    def _in_colour(self) -> bool:
        return sys.stderr is not None and not sys.stderr.closed and shows_colour(sys.stderr, os.environ)

    def never_wait(self) -> None:
        """From now on drop messages instead of waiting for a slow reader: others may depend on this process."""
        if self._beside is None and sys.stderr is not None:
            from fallow.interfaces.stderr_thread import StderrThread

            self._beside = StderrThread(sys.stderr.fileno(), sys.stderr.encoding)

    def finish(self) -> None:
        """Write the queued messages, before a signal ends this process."""
        if self._beside is not None:
            self._beside.finish()

    def error(self, sentence: str) -> None:
        """Report why fallow ends."""
        self._say("error", sentence)

    def note(self, sentence: str) -> None:
        """Report what a person should know. A message that repeats the last one is left out."""
        if sentence != self._last:
            self._last = sentence
            self._say("note", sentence)

    def detail(self, sentence: str) -> None:
        """Report what is only shown with -v."""
        if self.verbose:
            self._say("detail", sentence)

    def _say(self, level: str, sentence: str) -> None:
        if self.as_json:
            import json

            from fallow.interfaces.render.as_json import iso_time

            line = json.dumps({"at": iso_time(self._wall_s()), "level": level, "message": sentence})
        else:
            ours = _RED if level == "error" and self._in_colour else _PLAIN
            line = f"{ours} {printable(sentence)}"  # other users wrote a part of it
        if sys.stderr is None:
            return  # the parent process closed it
        if self._beside is not None:
            self._beside.say(f"{line}\n")
            return
        try:
            print(line, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            # Nobody reads stderr. That must not change what is done, nor the exit code when Python flushes it.
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115  open until the process ends
