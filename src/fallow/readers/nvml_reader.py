"""Read NVIDIA GPUs: one call of the pool for each card, so that a card that hangs or is lost affects no other."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations
from typing import Any, Generic, TypeVar

from fallow.core.activity import A_STRETCH_S
from fallow.core.errors import NoDriver
from fallow.core.gpu import Gpu, Holder, MigPlace, Recent, Snapshot
from fallow.core.ports import Clock, Depth, Links
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import fields, replace
from fallow.readers import nvml
from fallow.readers.call_pool import AboutTo, CallPool
from fallow.readers.proc import Proc

_ASK_FOR_MIG_EVERY_S = 60.0
_QUIET_BUS_BYTES_PER_S = 2**20  # reading causes some traffic itself, 0.2 to 0.7 MB/s on an H200
_QUIET_MEMORY = 0.001
_SAMPLES_LAST_S = 10.0  # the driver keeps those of 14 s
_NOBODY_THERE = Unknown("not read: no process holds the GPU", asked=False)
_COUNTERS_TELL = Unknown("not read: the hardware counters are enough", asked=False)
_MIG_HAS_NONE = Unknown("the driver does not report it for MIG instances")
_REQUIRED = set(fields(Gpu)) - {"index", "trouble", "mig"}
T = TypeVar("T")


class _Device:
    """A card or a MIG instance, and what is kept of it between two looks."""

    def __init__(self, handle: nvml.Handle) -> None:
        self.handle = handle
        self.identity: dict[str, Any] = {}
        self.history = nvml.History()
        self.counters = nvml.HardwareCounters()
        self.counted_s: float | None = None
        """When the counters were last read."""
        self.sampled_s: float | None = None
        """When its samples were last up to date."""
        self.was_held = False


class _Card:
    """One physical card, kept between looks."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.device: _Device | None = None
        self.instances: dict[str, _Device] = {}
        self._whole_s: float | None = None
        """When it was last seen that MIG mode is off."""

    def surely_not_split(self, at_s: float) -> bool:
        """Return whether MIG mode was off lately. It changes with a reset of the card; reading it takes 0.6 ms."""
        return self._whole_s is not None and 0 <= at_s - self._whole_s < _ASK_FOR_MIG_EVERY_S

    def note_split(self, at_s: float, *, is_split: bool) -> None:
        """Remember whether MIG mode is on."""
        self._whole_s = None if is_split else at_s


class _Row:
    """The readings of one GPU as they come in; each that never came gets its reason."""

    def __init__(self, index: int, mig: MigPlace | None = None, **facts: object) -> None:
        self.index = index
        self.mig = mig
        self.facts: dict[str, Any] = facts

    def gpu(self, trouble: str | None, missing: Unknown) -> Gpu:
        facts = dict(self.facts)  # a thread that returns late may still add to them
        rest = dict.fromkeys(_REQUIRED - facts.keys(), missing)
        return Gpu(index=self.index, mig=self.mig, trouble=trouble, **facts, **rest)


class _LookAtCard:
    """The call that reads one card with all its instances."""

    def __init__(self, card: _Card, depth: Depth, at_s: float) -> None:
        self.at_s = at_s
        self.key: Hashable = card.index
        self.card = card
        self.depth = depth
        self.rows: list[_Row] = []
        self.trouble: str | None = None

    def run(self, about_to: AboutTo) -> None:
        """Read everything; what was read before an error is kept."""
        try:
            self._read(nvml.Ask(about_to))
        except nvml.CardInTrouble as trouble:
            self.trouble = str(trouble)
        except Exception as error:  # noqa: BLE001  one card must not affect the others
            self.trouble = f"what the driver says of it makes no sense ({type(error).__name__}: {error})"

    def gpus(self, late: str | None) -> list[Gpu]:
        """Return what is known, given the step that did not return, if there was one."""
        trouble, missing = self.trouble, Unknown(self.trouble) if self.trouble else NOT_ASKED
        if late is not None:
            trouble = f"the driver does not answer {late}"
            missing = Unknown(trouble)
        rows = self.rows or [_Row(self.card.index, **(self.card.device.identity if self.card.device else {}))]
        return [row.gpu(trouble, missing) for row in list(rows)]

    def _read(self, ask: nvml.Ask) -> None:
        card = self.card
        if card.device is None:
            handle = nvml.handle_of_card(ask, card.index)
            if isinstance(handle, Unknown):
                raise nvml.CardInTrouble(handle.why)
            card.device = _Device(handle)
        device = card.device
        if "uuid" not in device.identity or isinstance(device.identity["uuid"], Unknown):
            device.identity = nvml.identity(ask, device.handle)
        instances = None
        if not card.surely_not_split(self.at_s):
            instances = nvml.mig_handles(ask, device.handle)
            card.note_split(self.at_s, is_split=instances is not None)
        if instances is None:
            row = _Row(card.index, **device.identity)
            self.rows = [row]
            self._read_device(ask, device, row, None)
        elif not instances:
            raise nvml.CardInTrouble("MIG mode is on and it has no instance")
        else:
            self._read_instances(ask, device, instances)

    def _read_instances(self, ask: nvml.Ask, parent: _Device, handles: dict[int, nvml.Handle]) -> None:
        for slot, handle in handles.items():
            if isinstance(handle, Unknown):
                self.rows.append(_Row(self.card.index, MigPlace(slot, parent.identity["uuid"], handle), uuid=handle))
                continue
            identity = nvml.identity(ask, handle)
            device = self.card.instances.setdefault(str(identity["uuid"]), _Device(handle))
            device.handle, device.identity = handle, identity
            place = MigPlace(slot, parent.identity["uuid"], nvml.instance_id(ask, handle))
            row = _Row(self.card.index, place, **identity)
            self.rows.append(row)
            self._read_device(ask, device, row, parent)

    def _read_device(self, ask: nvml.Ask, device: _Device, row: _Row, parent: _Device | None) -> None:
        facts, handle = row.facts, device.handle
        if parent is None:
            facts.update(nvml.utilization(ask, handle))
        else:
            facts.update(utilization=_MIG_HAS_NONE, memory_utilization=_MIG_HAS_NONE)
        facts["memory"] = nvml.memory(ask, handle)
        facts["holders"] = nvml.holders(ask, handle)
        body = device if parent is None else parent
        facts["temperature_c"] = nvml.temperature_c(ask, body.handle)
        if self.depth is Depth.ALL:
            facts["power_w"] = nvml.power_w(ask, body.handle)
            facts["power_limit_w"] = nvml.power_limit_w(ask, body.handle)
            self._read_load(ask, device, row, parent)
            if "minor" not in body.identity or isinstance(body.identity["minor"], Unknown):
                body.identity["minor"] = nvml.minor(ask, body.handle)
            facts["minor"] = body.identity["minor"]
            facts.update(nvml.clocks(ask, body.handle))

    def _read_load(self, ask: nvml.Ask, device: _Device, row: _Row, parent: _Device | None) -> None:
        """Read what ran since the last look, from counters and samples."""
        facts = row.facts
        body = device if parent is None else parent
        instance = row.mig.gpu_instance if row.mig is not None else None
        if isinstance(instance, Unknown):
            facts.update(counters=instance, recent=_MIG_HAS_NONE)
            return
        facts.update(device.counters.read(ask, body.handle, instance))
        seconds = 0.0 if device.counted_s is None else self.at_s - device.counted_s
        device.counted_s = self.at_s
        if not isinstance(facts["counters"], Unknown):
            facts["counters"] = replace(facts["counters"], seconds=seconds)
        if parent is not None:
            facts["recent"] = _MIG_HAS_NONE
            return
        if isinstance(facts["pcie_rx_bytes_per_s"], Unknown) and _looks_hung(facts["utilization"]):
            facts.update(nvml.pcie(ask, device.handle))
        self._read_history(ask, device, facts)

    def _read_history(self, ask: nvml.Ask, device: _Device, facts: dict[str, Any]) -> None:
        """Read the driver's samples, if the GPU is held and counters leave doubt: a call takes 3 ms on an H200."""
        holders = facts["holders"]
        was_held, device.was_held = device.was_held, isinstance(holders, Unknown) or bool(holders)
        if not device.was_held:
            told = _counters_tell(facts)
            facts["recent"] = _NOBODY_THERE if told else self._between_looks(ask, device, was_held=was_held)
        elif _counters_tell(facts):
            facts["recent"] = _COUNTERS_TELL
            if not isinstance(holders, Unknown) and len(holders) > 1:
                facts["holders"] = _with_load(holders, ask, device, sampled=False)
        else:
            recent = facts["recent"] = device.history.recent(ask, device.handle)
            facts["holders"] = _with_load(holders, ask, device, sampled=not isinstance(recent, Unknown))

    def _between_looks(self, ask: nvml.Ask, device: _Device, *, was_held: bool) -> Recent | Unknown:
        """Return what ran on a GPU that nobody holds, before the driver forgets it: a process may come and go unseen.

        What ran before the holders left does not count.
        """
        since_s = device.sampled_s
        due = was_held or (since_s is not None and not 0 <= self.at_s - since_s < _SAMPLES_LAST_S)
        if due or since_s is None:
            device.sampled_s = self.at_s
        if not due:
            return _NOBODY_THERE
        recent = device.history.recent(ask, device.handle)
        return _NOBODY_THERE if was_held or isinstance(recent, Unknown) else recent


def _looks_hung(load: float | Unknown) -> bool:
    """Return whether bus traffic is needed, to distinguish copies from a hang."""
    return not isinstance(load, Unknown) and load >= 0.9


def _at_least(share: float | Unknown, least: float) -> bool:
    return not isinstance(share, Unknown) and share >= least


def _counters_tell(facts: dict[str, Any]) -> bool:
    """Return whether hardware counters, which miss nothing, are certain that something or nothing ran."""
    counters = facts["counters"]
    if isinstance(counters, Unknown) or isinstance(counters.sm, Unknown):
        return False
    if counters.sm > 0:
        # It looks full and no work shows: the samples decide whether it hangs.
        return (
            not _looks_hung(facts["utilization"])
            or _at_least(counters.tensor, 0.001)
            or _at_least(counters.floating, 0.0001)
            or _at_least(counters.dram, 0.02)
        )
    if counters.seconds < A_STRETCH_S:
        return False
    rest = (counters.dram, facts["pcie_rx_bytes_per_s"], facts["pcie_tx_bytes_per_s"])
    if any(isinstance(value, Unknown) for value in rest):
        return False
    dram, rx, tx = rest
    return bool(dram < _QUIET_MEMORY and max(rx, tx) < _QUIET_BUS_BYTES_PER_S)


def _with_load(
    holders: tuple[Holder, ...] | Unknown, ask: nvml.Ask, device: _Device, *, sampled: bool
) -> tuple[Holder, ...] | Unknown:
    if isinstance(holders, Unknown):
        return holders
    ran = device.history.by_process(ask, device.handle, holders, sampled=sampled)
    return tuple(replace(holder, utilization=ran[holder.pid]) for holder in holders)


class _Errand(Generic[T]):
    """A call that is about no single card, and what it returned."""

    def __init__(self, key: str, call: Callable[[AboutTo], T], otherwise: T) -> None:
        """`otherwise`: the answer until the call has returned."""
        self.key: Hashable = key
        self.answer = otherwise
        self._call = call

    def run(self, about_to: AboutTo) -> None:
        """Make the call."""
        self.answer = self._call(about_to)


def _compare(about_to: AboutTo, devices: dict[str, _Device]) -> Links:
    """Read how each pair of cards is connected; a card that fails now is connected to no other."""
    ask = nvml.Ask(about_to)
    found: dict[frozenset[str], int] = {}
    for one, other in combinations(devices, 2):
        with suppress(nvml.CardInTrouble):
            near = nvml.nearness(ask, devices[one].handle, devices[other].handle)
            if near is not None:
                found[frozenset((one, other))] = near
    return found


class NvmlReader:
    """Reads all NVIDIA GPUs of this machine through one NVML handle, which stays open."""

    def __init__(self, host: str, clock: Clock, proc: Proc, limit_s: float, opening_s: float | None = None) -> None:
        """A call may take `limit_s`; starting the driver `opening_s`, by default a multiple of that."""
        self._host = host
        self._clock = clock
        self._proc = proc
        self._limit_s = limit_s
        self._crew = CallPool(clock.monotonic_s)
        try:
            cards = self._connect(limit_s * nvml.OPENING_TAKES if opening_s is None else opening_s)
        except BaseException:
            self._crew.dismiss()
            raise
        self._cards = [_Card(index) for index in range(cards)]

    def _connect(self, opening_s: float) -> int:
        start = _Errand("nvml", nvml.connect, 0)
        late = self._crew.send([start], opening_s / nvml.OPENING_TAKES)
        if late:
            raise NoDriver(f"the NVIDIA driver has not answered {late['nvml']} for {opening_s:g} s")
        if not start.answer:
            self._disconnect()
            raise NoDriver("the NVIDIA driver is here and has no GPU")
        return start.answer

    def _disconnect(self) -> None:
        self._crew.send([_Errand("nvml", nvml.disconnect, None)], self._limit_s)

    def look(self, depth: Depth) -> Snapshot:
        """Return all GPUs now."""
        at_s, wall_s = self._clock.monotonic_s(), self._clock.wall_s()
        errands = [_LookAtCard(card, depth, at_s) for card in self._cards]
        late = self._crew.send(errands, self._limit_s)
        gpus = [gpu for errand in errands for gpu in errand.gpus(late.get(errand.key))]
        return Snapshot(self._host, simulated=False, at_s=at_s, wall_s=wall_s, gpus=tuple(gpus))

    def versions(self) -> tuple[str | Unknown, int | Unknown]:
        """Return the versions of the driver and of the newest CUDA that it supports: 12080 is 12.8."""
        errand: _Errand[tuple[str | Unknown, int | Unknown]]
        errand = _Errand("versions", nvml.versions, (NOT_ASKED, NOT_ASKED))
        self._crew.send([errand], self._limit_s)
        return errand.answer

    def links(self, gpus: Sequence[Gpu]) -> Links:
        """Return how the given GPUs are connected; instances of one card are nearest."""
        by_uuid = {card.device.identity.get("uuid"): card.device for card in self._cards if card.device is not None}
        wanted = {gpu.uuid: by_uuid[gpu.uuid] for gpu in gpus if isinstance(gpu.uuid, str) and gpu.uuid in by_uuid}
        errand: _Errand[Links] = _Errand("links", partial(_compare, devices=wanted), {})
        self._crew.send([errand], self._limit_s)
        return errand.answer

    def describe(self, snapshot: Snapshot) -> Snapshot:
        """Return the same snapshot, with what /proc knows of each holder."""
        return replace(snapshot, gpus=self._proc.describe_all(snapshot.gpus))

    @property
    def is_free(self) -> bool:
        """Return whether no call hangs in the driver."""
        return self._crew.all_back()

    def close(self) -> None:
        """Shut NVML down, unless a call is still inside it: that would never return."""
        if self._crew.all_back():
            self._disconnect()
        self._crew.dismiss()
