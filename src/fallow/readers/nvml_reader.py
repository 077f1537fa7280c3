"""Read NVIDIA GPUs: one call of the pool for each card, so that a card that hangs or is lost affects no other.

It goes on when the driver is unloaded, replaced or reset. While no GPU answers, every look returns the GPUs that were
there, each with the reason why nothing is known of it. After a while the driver is closed and opened again. A driver
in which a call hangs is not: the call returns, or the program ends.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations

from fallow.core.annotations import Generic, TypeVar
from fallow.core.errors import NoDriver
from fallow.core.gpu import Gpu, Snapshot
from fallow.core.ports import Clock, Depth, Links
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import replace
from fallow.readers import nvml
from fallow.readers.call_pool import AboutTo, CallPool
from fallow.readers.nvml_card import Card, Device, LookAtCard, Row
from fallow.readers.proc import Proc

_BLIND_FOR_S = 5.0
"""How long nothing is known before the driver is opened again, and how long after one try the next may follow."""
T = TypeVar("T")


class _DriverCall(Generic[T]):
    """A call that is about no single card, and what it returned."""

    key: Hashable = "driver"

    def __init__(self, call: Callable[[AboutTo], T], otherwise: T) -> None:
        """`otherwise`: the answer until the call has returned."""
        self.answer = otherwise
        self._call = call

    def run(self, about_to: AboutTo) -> None:
        """Make the call."""
        self.answer = self._call(about_to)


def _compare(about_to: AboutTo, devices: dict[str, Device]) -> Links:
    """Read how each pair of cards is connected; a card that fails now is connected to no other."""
    ask = nvml.Ask(about_to)
    found: dict[frozenset[str], int] = {}
    for one, other in combinations(devices, 2):
        with suppress(nvml.CardInTrouble):
            near = nvml.nearness(ask, devices[one].handle, devices[other].handle)
            if near is not None:
                found[frozenset((one, other))] = near
    return found


def _close_and_open(about_to: AboutTo) -> int | str:
    """Return the number of GPUs, or why there is no driver."""
    nvml.disconnect(about_to)
    try:
        return nvml.connect(about_to)
    except NoDriver as error:
        return str(error)


class NvmlReader:
    """Reads all NVIDIA GPUs of this machine through one NVML handle, which stays open."""

    def __init__(self, host: str, clock: Clock, proc: Proc, limit_s: float) -> None:
        """Call `open` before the first look. A call may take `limit_s`, starting the driver a multiple of that."""
        self._host = host
        self._clock = clock
        self._proc = proc
        self._limit_s = limit_s
        self._pool = CallPool(clock.monotonic_s)
        self._cards: list[Card] = []
        self._last: tuple[Gpu, ...] = ()
        self._why_closed = ""
        self._blind_since_s: float | None = None
        """Since when no GPU has been readable, or when the driver was last opened in vain."""
        self._opening: _DriverCall[int | str] | None = None

    def open(self) -> None:
        """Start the driver; raise NoDriver if there is none, or none that answers, or no GPU."""
        start = _DriverCall(nvml.connect, 0)
        self._blind_since_s = self._clock.monotonic_s()
        try:
            hung = self._pool.make([start], self._limit_s)
        except NoDriver as error:
            self._why_closed = str(error)
            raise
        if hung:
            limit_s = self._limit_s * nvml.OPENING_TAKES
            self._why_closed = f"the NVIDIA driver has not answered {hung[start.key]} for {limit_s:g} s"
            raise NoDriver(self._why_closed)
        self._cards = [Card(index) for index in range(start.answer)]
        self._blind_since_s = None

    def look(self, depth: Depth) -> Snapshot:
        """Return all GPUs now."""
        at_s, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
        self._reopen_if_blind(at_s)
        if not self._cards:
            gpus = tuple(_unreadable(gpu, self._why_closed) for gpu in self._last)
            return Snapshot(self._host, simulated=False, at_s=at_s, wall_s=wall_s, gpus=gpus)
        looks = [LookAtCard(card, depth, at_s) for card in self._cards]
        hung = self._pool.make(looks, self._limit_s)
        gpus = tuple(gpu for each in looks for gpu in each.gpus(hung.get(each.key)))
        if any(gpu.trouble is None and not isinstance(gpu.holders, Unknown) for gpu in gpus):
            self._last, self._blind_since_s = gpus, None
        else:
            self._last = self._last or gpus
            self._blind_since_s = at_s if self._blind_since_s is None else self._blind_since_s
        return Snapshot(self._host, simulated=False, at_s=at_s, wall_s=wall_s, gpus=gpus)

    def _reopen_if_blind(self, at_s: float) -> None:
        """Close the driver and open it again, in a thread, if no GPU was readable for a while and no call hangs."""
        if self._pool.has_hung_call:
            return
        if self._opening is not None:
            found, self._opening, self._blind_since_s = self._opening.answer, None, at_s
            self._why_closed = found if isinstance(found, str) else ""
            self._cards = [] if isinstance(found, str) else [Card(index) for index in range(found)]
        elif self._blind_since_s is not None and at_s - self._blind_since_s >= _BLIND_FOR_S:
            self._cards, self._why_closed = [], self._why_closed or "the NVIDIA driver is being opened again"
            self._opening = _DriverCall[int | str](_close_and_open, "the NVIDIA driver cannot be opened")
            self._pool.make([self._opening], 0.0)

    def versions(self) -> tuple[str | Unknown, int | Unknown]:
        """Return the versions of the driver and of the newest CUDA that it supports: 12080 is 12.8."""
        call = _DriverCall[tuple[str | Unknown, int | Unknown]](nvml.versions, (NOT_ASKED, NOT_ASKED))
        self._pool.make([call], self._limit_s)
        return call.answer

    def links(self, gpus: Sequence[Gpu]) -> Links:
        """Return how the given GPUs are connected; instances of one card are nearest."""
        by_uuid = {card.device.identity.get("uuid"): card.device for card in self._cards if card.device is not None}
        wanted = {gpu.uuid: by_uuid[gpu.uuid] for gpu in gpus if isinstance(gpu.uuid, str) and gpu.uuid in by_uuid}
        call = _DriverCall[Links](partial(_compare, devices=wanted), {})
        self._pool.make([call], self._limit_s)
        return call.answer

    def describe(self, snapshot: Snapshot) -> Snapshot:
        """Return the same snapshot, with what /proc knows of each holder."""
        return replace(snapshot, gpus=self._proc.describe_all(snapshot.gpus))

    def close(self) -> None:
        """Shut NVML down, unless a call is still inside it: that would never return."""
        if not self._pool.has_hung_call:
            self._pool.make([_DriverCall(nvml.disconnect, None)], self._limit_s)
        self._pool.close()


def _unreadable(gpu: Gpu, why: str) -> Gpu:
    return Row(gpu.index, gpu.mig, uuid=gpu.uuid, name=gpu.name, minor=gpu.minor).gpu(why)
