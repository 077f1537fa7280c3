"""Keep the view of a cluster that was put together last for each viewer: a large one takes a while."""

from fallow.core.cluster import ClusterBoard
from fallow.core.cluster_view import ClusterView, cluster_view
from fallow.core.visibility import Viewer


class ClusterViews:
    """The views of the last look, by viewer."""

    def __init__(self) -> None:
        self._made: dict[Viewer, tuple[ClusterBoard, ClusterView]] = {}

    def of(self, board: ClusterBoard, viewer: Viewer) -> ClusterView:
        """Return the view, which is put together once per look and viewer."""
        if viewer not in self._made or self._made[viewer][0] is not board:
            self._made = {each: (seen, view) for each, (seen, view) in self._made.items() if seen is board}
            self._made[viewer] = board, cluster_view(board, viewer)
        return self._made[viewer][1]
