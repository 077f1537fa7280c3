"""History with as much of each command line as a viewer may read."""

from collections.abc import Sequence

from fallow.core.activity import Activity
from fallow.core.interval import Card, Interval
from fallow.core.visibility import Viewer, interval_seen_by
from fallow.engine.history.report import Witnessed


class RedactedHistory:
    """Reads history for one viewer: what is stored may be older than the rule on who reads what."""

    def __init__(self, past: Witnessed, viewer: Viewer) -> None:
        self._past = past
        self._viewer = viewer

    def cards(self) -> dict[str, Card]:
        """Return every known GPU, by UUID, in order."""
        return self._past.cards()

    def tallies(self, edges_ms: Sequence[int]) -> list[Interval]:
        """Return what was witnessed between each two edges."""
        return [interval_seen_by(interval, self._viewer) for interval in self._past.tallies(edges_ms)]

    def colours(self, uuid: str, since_ms: int, until_ms: int, finest_ms: int) -> list[tuple[int, int, Activity]]:
        """Return what one GPU did: from when, until when, and what; no finer than `finest_ms`."""
        return self._past.colours(uuid, since_ms, until_ms, finest_ms)

    def close(self) -> None:
        """Close the reader."""
        self._past.close()
