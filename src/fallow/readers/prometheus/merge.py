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
        places.add(each)
        # Exporters name the same host with and without its domain.
        host = _first_part(each.host)
        by_gpu.setdefault((host, each.uuid), []).append(each)
        if each.parent:
            divided.add((host, each.parent))
    readings = [_one(several, _DIVIDED if key in divided else None) for key, several in by_gpu.items()]
    return tuple(map(places.doubted, readings))


def _one(several: Sequence[Seen], doubt: Unknown | None) -> GpuReading:
    first = several[0]
    if any(each.index != first.index for each in several):
        doubt = Unknown("its exporters give it different indices")
    pods = {pod for each in several for pod in each.pods}
    uids = {uid for each in several for uid in each.pod_uids}
    return GpuReading(
        key=GpuKey(first.host, first.uuid),
        index=first.index if all(each.index == first.index for each in several) else None,
        utilization=_busiest(several) if doubt is None else doubt,
        memory_used_bytes=_whole(_figure("memory_used_bytes", several)),
        power_w=_figure("power_w", several),
        power_limit_w=_figure("power_limit_w", several),
        processes=_whole(_figure("processes", several)),
        model=next((each.model for each in several if each.model), ""),
        pod=next(iter(pods)) if len(pods) == 1 else None,
        pod_uid=next(iter(uids)) if len(uids) == 1 else "",
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


def _figure(name: str, several: Sequence[Seen]) -> float | Unknown:
    if len(several) == 1:
        return several[0].figure(name)
    figures = [each.figure(name) for each in several]
    known = [each for each in figures if not isinstance(each, Unknown)]
    return max(known) if known else figures[0]


def _whole(number: float | Unknown) -> int | Unknown:
    return number if isinstance(number, Unknown) else int(number)


class _Places:
    """Which GPUs exporters name for an index of a host: if several, none can be told from the others."""

    def __init__(self) -> None:
        self._uuids: dict[tuple[str, int], set[str]] = {}
        self._names: dict[str, set[str]] = {}
        """The names of the hosts with the same first part."""

    def add(self, seen: Seen) -> None:
        """Take note of one GPU, as one exporter shows it."""
        if seen.index is not None:
            host = seen.host.lower()
            self._names.setdefault(_first_part(host), set()).add(host)
            self._uuids.setdefault((host, seen.index), set()).add(seen.uuid)

    def doubted(self, reading: GpuReading) -> GpuReading:
        """Return the reading, as Unknown if another GPU has its place."""
        host, index = reading.key.host.lower(), reading.index
        if index is None:
            return reading
        # Two whole names that differ are two hosts, whatever their first parts are.
        same = (each for each in self._names[_first_part(host)] if each == host or "." not in each or "." not in host)
        if len(set[str]().union(*(self._uuids.get((each, index), ()) for each in same))) <= 1:
            return reading
        return replace(reading, utilization=Unknown(f"two GPUs of {reading.key.host} have the index {index}"))


def _first_part(host: str) -> str:
    return host.partition(".")[0].lower()
