"""A reader that goes on when the driver is unloaded, replaced or reset, and comes back.

While no GPU answers, every look returns the GPUs that were there, each with the reason why nothing is known of it.
After a while, if no call is inside the driver, the driver is closed and opened again in a thread, because opening
may take long. A driver in which a call hangs is not opened again: the call returns, or the program ends.
"""

from collections.abc import Callable, Sequence
from threading import Thread

from fallow.core.errors import NoDriver
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Clock, Depth, GpuReader, Links
from fallow.core.unknown import Unknown
from fallow.core.value import fields, replace

_BLIND_FOR_S = 5.0
"""How long nothing is known before the driver is opened again, and how long after one try the next may follow."""
_IDENTITY = {"index", "uuid", "name", "mig", "minor", "trouble"}
_READINGS = tuple(name for name in fields(Gpu) if name not in _IDENTITY)


class _Opening:
    """Closes the driver and opens it again, in a thread."""

    def __init__(self, old: GpuReader | None, open_driver: Callable[[], GpuReader]) -> None:
        self.gpu_reader: GpuReader | None = None
        self.why = "the NVIDIA driver is being opened again"
        self._old = old
        self._open_driver = open_driver
        self._thread = Thread(target=self._work, name="fallow-driver-opens", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Return whether there is a reader, or a reason why there is none."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        try:
            if self._old is not None:
                self._old.close()
            self.gpu_reader = self._open_driver()
        except NoDriver as error:
            self.why = str(error)
        except Exception as error:  # noqa: BLE001  it is tried again, and until then this is the reason
            self.why = f"the NVIDIA driver cannot be opened: {type(error).__name__}: {error}"


class ReopeningReader:
    """A reader that is opened again when it can read nothing."""

    def __init__(self, first: GpuReader | Snapshot, open_again: Callable[[], GpuReader], clock: Clock) -> None:
        """`first`: a snapshot without GPUs if there is no driver yet.

        `open_again` may take any time, and raises NoDriver if there is no driver.
        """
        self._gpu_reader = None if isinstance(first, Snapshot) else first
        self._open_again = open_again
        self._clock = clock
        self._last = first if isinstance(first, Snapshot) else first.look(Depth.ALL)
        self._since_s = first.at_s if isinstance(first, Snapshot) else None
        self._opening: _Opening | None = None
        self._why = ""

    def look(self, depth: Depth) -> Snapshot:
        """Return all GPUs now; while there is no driver, those that were there last, all unknown."""
        now_s = self._clock.monotonic_s()
        if self._opening is not None and self._opening.is_over:
            self._gpu_reader, self._why = self._opening.gpu_reader, self._opening.why
            self._opening, self._since_s = None, now_s
        if self._opening is None and self._is_time_to_open(now_s):
            self._opening, self._gpu_reader = _Opening(self._gpu_reader, self._open_again), None
            self._why = self._opening.why
        if self._gpu_reader is None:
            return self._nothing_known(now_s)
        snapshot = self._gpu_reader.look(depth)
        if any(gpu.trouble is None and not isinstance(gpu.holders, Unknown) for gpu in snapshot.gpus):
            self._last, self._since_s = snapshot, None
        elif self._since_s is None:
            self._since_s = now_s
        return snapshot

    def links(self, gpus: Sequence[Gpu]) -> Links:
        """Return how the given GPUs are connected; nothing is known while there is no driver."""
        return {} if self._gpu_reader is None else self._gpu_reader.links(gpus)

    def describe(self, snapshot: Snapshot) -> Snapshot:
        """Return the same snapshot, with what /proc knows of each holder."""
        return snapshot if self._gpu_reader is None else self._gpu_reader.describe(snapshot)

    @property
    def is_free(self) -> bool:
        """Return whether no call is inside the driver."""
        return self._opening is None and (self._gpu_reader is None or self._gpu_reader.is_free)

    def close(self) -> None:
        """Close the driver, unless a call is inside it: that would never return."""
        if self._gpu_reader is not None:
            self._gpu_reader.close()
            self._gpu_reader = None

    def _is_time_to_open(self, now_s: float) -> bool:
        return self._since_s is not None and now_s - self._since_s >= _BLIND_FOR_S and self.is_free

    def _nothing_known(self, now_s: float) -> Snapshot:
        unknown = dict.fromkeys(_READINGS, Unknown(self._why))
        gpus = tuple(replace(gpu, trouble=self._why, **unknown) for gpu in self._last.gpus)
        return replace(self._last, at_s=now_s, wall_s=self._clock.wall_s(), gpus=gpus)
