"""What fallow says beside its results: on stderr, as text or as JSON lines."""

import os
import sys
from collections.abc import Callable

from fallow.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fallow.interfaces.stderr_thread import StderrThread


class Stderr:
    """The one who speaks. Results go to stdout and never through here."""

    def __init__(self, wall_s: Callable[[], float]) -> None:
        self._wall_s = wall_s
        self.verbose = False
        self.as_json = False
        self._last = ""
        self._beside: StderrThread | None = None

    @property
    def on_a_terminal(self) -> bool:
        """Whether a person reads along, and not a log."""
        return sys.stderr is not None and not self.as_json and sys.stderr.isatty()

    def never_wait(self) -> None:
        """From now on a reader who does not read costs us sentences and no time: something may depend on us."""
        if self._beside is None and sys.stderr is not None:
            from fallow.interfaces.stderr_thread import StderrThread

            self._beside = StderrThread(sys.stderr.fileno(), sys.stderr.encoding)

    def finish(self) -> None:
        """Let what was said be heard, before a signal ends us without another word."""
        if self._beside is not None:
            self._beside.finish()

    def error(self, sentence: str) -> None:
        """Why fallow ends."""
        self._say("error", sentence)

    def note(self, sentence: str) -> None:
        """What a person should know. The same thing twice in a row is said once."""
        if sentence != self._last:
            self._last = sentence
            self._say("note", sentence)

    def detail(self, sentence: str) -> None:
        """What only somebody who asked with -v wants to know."""
        if self.verbose:
            self._say("detail", sentence)

    def _say(self, level: str, sentence: str) -> None:
        if self.as_json:
            import json

            from fallow.interfaces.render.as_json import iso_time

            line = json.dumps({"at": iso_time(self._wall_s()), "level": level, "message": sentence})
        else:
            line = f"fallow: {printable(sentence)}"  # others wrote a part of it
        if sys.stderr is None:
            return  # closed by whoever started us
        if self._beside is not None:
            self._beside.say(f"{line}\n")
            return
        try:
            print(line, file=sys.stderr, flush=True)
        except (OSError, ValueError):
            # Nobody listens. That must not decide what is done, nor the exit code when Python flushes at the end.
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for as long as we live
