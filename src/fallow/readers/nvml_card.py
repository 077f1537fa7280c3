"""Read one card with its MIG instances: what is kept of it between looks, and one look at it."""

from collections.abc import Hashable

from fallow.core.activity import A_STRETCH_S
from fallow.core.annotations import Any
from fallow.core.gpu import Gpu, Holder, MigPlace, Recent
from fallow.core.ports import Depth
from fallow.core.unknown import NOT_ASKED, Unknown
from fallow.core.value import fields, replace
from fallow.readers import nvml
from fallow.readers.call_pool import AboutTo

_ASK_FOR_MIG_EVERY_S = 60.0  # it changes with a reset of the card, and reading it takes 0.6 ms
_READ_SAMPLES_EVERY_S = 10.0  # of a GPU that nobody holds: the driver keeps those of 14 s, and reading takes 3 ms
_SLOW_LAST_S = 5.0  # temperature, limit and clocks decide nothing at once; together they take 0.9 ms a card
_QUIET_BUS_BYTES_PER_S = 2**20  # reading causes some traffic itself, 0.2 to 0.7 MB/s on an H200
_QUIET_MEMORY = 0.001
_NOBODY_THERE = Unknown("not read: no process holds the GPU", asked=False)
_COUNTERS_TELL = Unknown("not read: the hardware counters are enough", asked=False)
_MIG_HAS_NONE = Unknown("the driver does not report it for MIG instances")
_REQUIRED = set(fields(Gpu)) - {"index", "trouble", "mig"}


class Device:
    """A card or a MIG instance, and what is kept of it between two looks."""

    def __init__(self, handle: nvml.Handle) -> None:
        self.handle = handle
        self.identity: dict[str, Any] = {}
        self.history = nvml.History()
        self.counters = nvml.HardwareCounters()
        self.counted_s: float | None = None
        """When the counters were last read."""
        self.sampled_s: float | None = None
        """When the samples of the GPU, held by nobody, were last read."""
        self.was_held = False
        self._kept: dict[nvml.Reading, tuple[float, Any]] = {}

    def lately(self, read: nvml.Reading, ask: nvml.Ask, at_s: float) -> Any:  # noqa: ANN401  whatever it reads
        """Return what this reads, or what it has read a moment ago."""
        if read not in self._kept or at_s - self._kept[read][0] >= _SLOW_LAST_S:
            self._kept[read] = at_s, read(ask, self.handle)
        return self._kept[read][1]


class Card:
    """One physical card, kept between looks."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.device: Device | None = None
        self.instances: dict[str, Device] = {}
        self.whole_until_s = float("-inf")
        """Until when it is taken for granted that MIG mode is off."""


class Row:
    """The readings of one GPU as they come in; each that never came gets its reason."""

    def __init__(self, index: int, mig: MigPlace | None = None, **facts: object) -> None:
        self.index = index
        self.mig = mig
        self.facts: dict[str, Any] = facts

    def gpu(self, trouble: str | None) -> Gpu:
        """Return the GPU; with trouble, that is the reason of each missing reading."""
        facts = dict(self.facts)  # a thread that returns late may still add to them
        missing = NOT_ASKED if trouble is None else Unknown(trouble)
        rest = dict.fromkeys(_REQUIRED - facts.keys(), missing)
        return Gpu(index=self.index, mig=self.mig, trouble=trouble, **facts, **rest)


class LookAtCard:
    """The call that reads one card with all its instances."""

    def __init__(self, card: Card, depth: Depth, at_s: float) -> None:
        self.key: Hashable = card.index
        self._at_s = at_s
        self._card = card
        self._depth = depth
        self._rows: list[Row] = []
        self._trouble: str | None = None

    def run(self, about_to: AboutTo) -> None:
        """Read everything; what was read before an error is kept."""
        try:
            self._read(nvml.Ask(about_to))
        except nvml.CardInTrouble as trouble:
            self._trouble = str(trouble)
        except Exception as error:  # noqa: BLE001  one card must not affect the others
            self._trouble = f"what the driver says of it makes no sense ({type(error).__name__}: {error})"

    def gpus(self, hangs_in: str | None) -> list[Gpu]:
        """Return what is known, given the step in which the call hangs, if it does."""
        trouble = self._trouble if hangs_in is None else f"the driver does not answer {hangs_in}"
        device = self._card.device
        rows = self._rows or [Row(self._card.index, **(device.identity if device else {}))]
        return [row.gpu(trouble) for row in list(rows)]

    def _read(self, ask: nvml.Ask) -> None:
        card = self._card
        if card.device is None:
            handle = nvml.handle_of_card(ask, card.index)
            if isinstance(handle, Unknown):
                raise nvml.CardInTrouble(handle.why)
            card.device = Device(handle)
        device = card.device
        if isinstance(device.identity.get("uuid", NOT_ASKED), Unknown):
            device.identity = nvml.identity(ask, device.handle)
        if self._at_s >= card.whole_until_s:
            instances = nvml.mig_handles(ask, device.handle)
            if instances is not None:
                self._read_instances(ask, device, instances)
                return
            card.whole_until_s = self._at_s + _ASK_FOR_MIG_EVERY_S
        row = Row(card.index, **device.identity)
        self._rows = [row]
        self._read_device(ask, device, row, None)

    def _read_instances(self, ask: nvml.Ask, parent: Device, handles: dict[int, nvml.Handle]) -> None:
        if not handles:
            raise nvml.CardInTrouble("MIG mode is on and it has no instance")
        for slot, handle in handles.items():
            if isinstance(handle, Unknown):
                place = MigPlace(slot, parent.identity["uuid"], handle)
                self._rows.append(Row(self._card.index, place, uuid=handle))
                continue
            identity = nvml.identity(ask, handle)
            device = self._card.instances.setdefault(str(identity["uuid"]), Device(handle))
            device.handle, device.identity = handle, identity
            place = MigPlace(slot, parent.identity["uuid"], nvml.instance_id(ask, handle))
            row = Row(self._card.index, place, **identity)
            self._rows.append(row)
            self._read_device(ask, device, row, parent)

    def _read_device(self, ask: nvml.Ask, device: Device, row: Row, parent: Device | None) -> None:
        facts, handle = row.facts, device.handle
        if parent is None:
            facts.update(nvml.utilization(ask, handle))
        else:
            facts.update(utilization=_MIG_HAS_NONE, memory_utilization=_MIG_HAS_NONE)
        facts["memory"] = nvml.memory(ask, handle)
        facts["holders"] = nvml.holders(ask, handle)
        body = parent or device
        facts["temperature_c"] = body.lately(nvml.temperature_c, ask, self._at_s)
        if self._depth is Depth.ALL:
            facts["power_w"] = nvml.power_w(ask, body.handle)
            facts["power_limit_w"] = body.lately(nvml.power_limit_w, ask, self._at_s)
            self._read_load(ask, device, row, parent)
            facts["minor"] = body.lately(nvml.minor, ask, self._at_s)
            facts.update(body.lately(nvml.clocks, ask, self._at_s))

    def _read_load(self, ask: nvml.Ask, device: Device, row: Row, parent: Device | None) -> None:
        """Read what ran since the last look, from counters and samples."""
        facts = row.facts
        instance = row.mig.gpu_instance if row.mig is not None else None
        if isinstance(instance, Unknown):
            facts.update(counters=instance, recent=_MIG_HAS_NONE)
            return
        facts.update(device.counters.read(ask, (parent or device).handle, instance))
        seconds = 0.0 if device.counted_s is None else self._at_s - device.counted_s
        device.counted_s = self._at_s
        if not isinstance(facts["counters"], Unknown):
            facts["counters"] = replace(facts["counters"], seconds=seconds)
        if parent is not None:
            facts["recent"] = _MIG_HAS_NONE
            return
        if isinstance(facts["pcie_rx_bytes_per_s"], Unknown) and _looks_hung(facts["utilization"]):
            facts.update(nvml.pcie(ask, device.handle))
        self._read_samples(ask, device, facts)

    def _read_samples(self, ask: nvml.Ask, device: Device, facts: dict[str, Any]) -> None:
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

    def _between_looks(self, ask: nvml.Ask, device: Device, *, was_held: bool) -> Recent | Unknown:
        """Return what ran on a GPU that nobody holds, before the driver forgets it: a process may come and go unseen.

        What ran before the holders left does not count.
        """
        since_s = device.sampled_s
        due = since_s is not None and self._at_s - since_s >= _READ_SAMPLES_EVERY_S
        if since_s is None or due or was_held:
            device.sampled_s = self._at_s
        recent = device.history.recent(ask, device.handle) if due or was_held else _NOBODY_THERE
        return _NOBODY_THERE if was_held or isinstance(recent, Unknown) else recent


def _looks_hung(load: float | Unknown) -> bool:
    """Return whether bus traffic is needed, to distinguish copies from a hang."""
    return _at_least(load, 0.9)


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
    rest = (counters.dram, facts["pcie_rx_bytes_per_s"], facts["pcie_tx_bytes_per_s"])
    if counters.seconds < A_STRETCH_S or any(isinstance(value, Unknown) for value in rest):
        return False
    dram, rx, tx = rest
    return bool(dram < _QUIET_MEMORY and max(rx, tx) < _QUIET_BUS_BYTES_PER_S)


def _with_load(
    holders: tuple[Holder, ...] | Unknown, ask: nvml.Ask, device: Device, *, sampled: bool
) -> tuple[Holder, ...] | Unknown:
    if isinstance(holders, Unknown):
        return holders
    ran = device.history.by_process(ask, device.handle, holders, sampled=sampled)
    return tuple(replace(holder, utilization=ran[holder.pid]) for holder in holders)
