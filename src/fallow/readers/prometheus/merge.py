"""Make one reading of everything that exporters say of a GPU: in doubt it worked, or it is Unknown."""

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
    for each in found:
        # Exporters name the same host with and without its domain.
        host = each.host.partition(".")[0].lower()
        by_gpu.setdefault((host, each.uuid), []).append(each)
        if each.parent:
            divided.add((host, each.parent))
    readings = [_one(several, _DIVIDED if key in divided else None) for key, several in by_gpu.items()]
    return tuple(_each_place_once(readings))


def _one(several: Sequence[Seen], doubt: Unknown | None) -> GpuReading:
    first = several[0]
    if any(each.index != first.index for each in several):
        doubt = Unknown("its exporters give it different indices")
    pods = {each.pod for each in several if each.pod is not None}
    uids = {each.pod_uid for each in several if each.pod_uid}
    used = _figure("memory_used_bytes", several)
    total = _figure("memory_total_bytes", several)
    free = _figure("memory_free_bytes", several)
    if isinstance(total, Unknown) and not isinstance(used, Unknown) and not isinstance(free, Unknown):
        total = used + free
    return GpuReading(
        key=GpuKey(first.host, first.uuid),
        index=first.index if all(each.index == first.index for each in several) else None,
        utilization=_busiest(several) if doubt is None else doubt,
        memory_used_bytes=_whole(used),
        memory_total_bytes=_whole(total),
        power_w=_figure("power_w", several),
        power_limit_w=_figure("power_limit_w", several),
        processes=_whole(_figure("processes", several)),
        model=next((each.model for each in several if each.model), ""),
        pod=next(iter(pods)) if len(pods) == 1 else None,
        pod_uid=next(iter(uids)) if len(uids) == 1 else "",
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


def _each_place_once(readings: Sequence[GpuReading]) -> Iterable[GpuReading]:
    """Yield the readings; if two GPUs claim the same index of a host, neither can be told from the other."""
    places: dict[tuple[str, int], int] = {}
    for each in readings:
        if each.index is not None:
            place = (each.key.host, each.index)
            places[place] = places.get(place, 0) + 1
    for each in readings:
        if each.index is not None and places[each.key.host, each.index] > 1:
            yield replace(each, utilization=Unknown(f"two GPUs of {each.key.host} have the index {each.index}"))
        else:
            yield each
