"""Make one reading of everything that exporters say of a GPU: in doubt it worked, or it is Unknown.

A neighbour may run an exporter. Whatever it says beside a true one makes no GPU idle that worked: of each GPU the
most counts, and what exporters contradict each other about, its place or its pod, is in doubt for all of them.
"""

from collections.abc import Iterable, Sequence

from fallow.core.cluster import GpuReading
from fallow.core.job import IDLE_BELOW, GpuKey
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.readers.prometheus.series import Seen

_DIVIDED = Unknown("it is divided into MIG instances, which are seen one by one")


def merged(found: Iterable[Seen]) -> tuple[GpuReading, ...]:
    """Return one reading for each GPU."""
    by_gpu: dict[tuple[str, str], list[Seen]] = {}
    divided: set[tuple[str, str]] = set()
    places = _Places()
    for each in found:
        # Exporters name the same host with and without its domain.
        host = each.host.lower()
        short = host.partition(".")[0]
        places.add(short, host, each)
        by_gpu.setdefault((short, each.uuid), []).append(each)
        if each.parent:
            divided.add((short, each.parent))
    readings = [_one(several, _DIVIDED if key in divided else None) for key, several in by_gpu.items()]
    return tuple(map(places.doubted, readings) if places.are_in_doubt else readings)


def _one(several: Sequence[Seen], doubt: Unknown | None) -> GpuReading:
    first = several[0]
    index, pods, uids, figures = first.number, first.pods, first.pod_uids, first.figures
    if len(several) > 1:
        if any(each.number != index for each in several):
            index, doubt = None, Unknown("its exporters give it different indices")
        pods = tuple(pod for each in several for pod in each.pods)
        uids = tuple(uid for each in several for uid in each.pod_uids)
        figures = tuple(_most(each) for each in zip(*(each.figures for each in several), strict=True))
    if len(pods) > 1:
        pods = tuple(dict.fromkeys(pods))
    if len(uids) > 1:
        uids = tuple(dict.fromkeys(uids))
    used, processes = figures
    return GpuReading(
        key=GpuKey(first.host, first.uuid),
        index=index,
        utilization=_busiest(several) if doubt is None else doubt,
        of_moments=all(each.of_moments for each in several),
        memory_used_bytes=_whole(used),
        processes=_whole(processes),
        pod=pods[0] if len(pods) == 1 else None,
        pod_uid=uids[0] if len(uids) == 1 else "",
        pods_in_doubt=(*(pods if len(pods) > 1 else ()), *(uids if len(uids) > 1 else ())),
    )


def _busiest(several: Sequence[Seen]) -> float | Unknown:
    """Return the most that an exporter saw. That it worked is known from one; that it did not, only from all."""
    if len(several) == 1:
        return several[0].utilization
    known = [each.utilization for each in several if not isinstance(each.utilization, Unknown)]
    most = max(known, default=0.0)
    unknown = next((each.utilization for each in several if isinstance(each.utilization, Unknown)), None)
    return most if unknown is None or most >= IDLE_BELOW else unknown


def _most(figures: Sequence[float | Unknown]) -> float | Unknown:
    known = [each for each in figures if not isinstance(each, Unknown)]
    return max(known) if known else figures[0]


def _whole(number: float | Unknown) -> int | Unknown:
    return number if isinstance(number, Unknown) else int(number)


class _Places:
    """Which GPUs exporters name for an index of a host: if several, none can be told from the others."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], str] = {}
        """The first GPU that was named for a place."""
        self._others: dict[tuple[str, int], set[str]] = {}
        self._names: dict[str, set[str]] = {}
        """The names of the hosts with the same first part."""

    def add(self, short: str, host: str, seen: Seen) -> None:
        """Take note of one GPU, as one exporter shows it; `short` is the first part of the name of its host."""
        if seen.number is None:
            return
        names = self._names.get(short)
        if names is None:
            names = self._names[short] = set()
        names.add(host)
        place = (host, seen.number)
        if self._first.setdefault(place, seen.uuid) != seen.uuid:
            self._others.setdefault(place, set()).add(seen.uuid)

    @property
    def are_in_doubt(self) -> bool:
        """Return whether there may be a GPU whose place another one has."""
        return bool(self._others) or any(len(names) > 1 for names in self._names.values())

    def doubted(self, reading: GpuReading) -> GpuReading:
        """Return the reading, as Unknown if another GPU has its place."""
        host, index = reading.key.host.lower(), reading.index
        if index is None:
            return reading
        names = self._names[host.partition(".")[0]]
        # Two whole names that differ are two hosts, whatever their first parts are.
        same = [each for each in names if each == host or "." not in each or "." not in host]
        uuids = {self._first[each, index] for each in same if (each, index) in self._first}
        if len(uuids) <= 1 and not any((each, index) in self._others for each in same):
            return reading
        return replace(reading, utilization=Unknown(f"two GPUs of {reading.key.host} have the index {index}"))
