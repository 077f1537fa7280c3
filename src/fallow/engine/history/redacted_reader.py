"""History with as much of each command line as somebody may read."""

from collections.abc import Sequence

from fallow.core.activity import Activity
from fallow.core.interval import Card, Interval
from fallow.core.visibility import Viewer, interval_seen_by
from fallow.engine.history.report import Witnessed


class RedactedHistory:
    """A past as a viewer may see it: what was written down may be older than the rule on who reads what."""

    def __init__(self, past: Witnessed, viewer: Viewer) -> None:
        self._past = past
        self._viewer = viewer

    def cards(self) -> dict[str, Card]:
        """Every GPU that it knows, by UUID, in order."""
        return self._past.cards()

    def tallies(self, edges_ms: Sequence[int]) -> list[Interval]:
        """All that was witnessed between each two edges."""
        return [interval_seen_by(interval, self._viewer) for interval in self._past.tallies(edges_ms)]

    def colours(self, uuid: str, since_ms: int, until_ms: int, finest_ms: int) -> list[tuple[int, int, Activity]]:
        """What one GPU did: from when, until when, and what; no finer than that."""
        return self._past.colours(uuid, since_ms, until_ms, finest_ms)

    def close(self) -> None:
        """Done."""
        self._past.close()
