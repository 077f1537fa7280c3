"""The condition that a file was written. Its file system may hang, so it is looked at beside the loop."""

import os

from fallow.core.job import Job
from fallow.core.ports import Clock
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.conditions.parse import Touched
from fallow.engine.conditions.rate import Found
from fallow.engine.conditions.shared import Shared
from fallow.engine.conditions.since import Since

_NS_PER_S = 1e9


class FileTouched:
    """The condition that a file was written within a time, or since the last look. The file is never opened."""

    def __init__(self, wanted: Touched, clock: Clock, shared: Shared, text: str) -> None:
        self.text = text
        self._wanted = wanted
        self._clock = clock
        self._shared = shared
        self._changed = Since(wanted.path, self._touched)

    def __call__(self, job: Job) -> Found:  # noqa: ARG002  as the protocol has it
        """Return the reason if it was touched. A file that is not there cannot be told."""
        path, within_s = self._wanted.path, self._wanted.within_s
        answer = self._shared.latest(("file", path), path, lambda: _written_ns(path))
        if isinstance(answer, Unknown):
            return answer
        if within_s is None:
            return self._changed(answer)
        return self._reason(answer[0]) if self._ago_s(answer[0]) < within_s else None

    def _touched(self, before_ns: int, now_ns: int) -> Found:
        return None if now_ns == before_ns else self._reason(now_ns)

    def _reason(self, written_ns: int) -> Reason:
        return Reason("file_touched", path=self._wanted.path, ago_s=self._ago_s(written_ns))

    def _ago_s(self, written_ns: int) -> float:
        return max(0.0, self._clock.wall_s() - written_ns / _NS_PER_S)


def _written_ns(path: str) -> int | Unknown:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return Unknown(f"{path} cannot be looked at: {why}")
