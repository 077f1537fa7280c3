"""Tell of whom it is not known that they did nothing, where several processes share a GPU.

The driver notes a few times a second who runs at that moment, and names only those. Measured on an H200: of 64
processes that take turns ten are named within two seconds, and one beside them that works half of the time is missing
at four of five looks. So whoever starts many processes beside a job could make it look idle. Who was not named did
nothing only if so many were named meanwhile that it would be among them.
"""

from collections.abc import Collection, Sequence

_FEW = 4  # so many that take turns hide each other for several looks
_LOOKS = 30
_TIMES = 10  # of those who take turns equally, one in twenty thousand is not named among so many for each


class Crowd:
    """The processes that take turns on one GPU."""

    def __init__(self) -> None:
        self._looks = 0
        self._named = 0
        self._named_at: dict[int, tuple[int, int]] = {}
        """At which look each process was last named, and how many had been by then."""
        self._came_at: dict[int, int] = {}
        """How many had been named when each holder came."""
        self._needed = 0

    def take_in(self, holders: Collection[int], named: Sequence[int]) -> None:
        """Note whom the driver named at this look, some of them several times."""
        self._looks += 1
        self._came_at = {pid: self._came_at.get(pid, self._named) for pid in holders}
        self._named += len(named)
        self._named_at |= dict.fromkeys(named, (self._looks, self._named))
        lately = {pid for pid, (look, _) in self._named_at.items() if self._looks - look < _LOOKS}
        self._named_at = {pid: at for pid, at in self._named_at.items() if pid in lately or pid in self._came_at}
        self._needed = _TIMES * len(lately) if len(lately) >= _FEW else 0

    def hides(self, pid: int) -> bool:
        """Return whether a holder that was not named may have run all the same."""
        _, last = self._named_at.get(pid, (0, 0))
        return self._named - max(last, self._came_at.get(pid, 0)) < self._needed
