"""The metrics of a fleet: which hosts answer, and what their GPUs do."""

from collections.abc import Iterator

from fallow.core.activity import Activity
from fallow.core.fleet import FleetBoard

Samples = list[tuple[tuple[str, ...], float | None]]


def fleet_samples(found: FleetBoard) -> Iterator[tuple[str, str, Samples, tuple[str, ...]]]:
    """Yield the name, the meaning, the samples and the labels of each metric; a silent host has no GPUs."""
    up: Samples = [((host.name,), float(host.status is not None)) for host in found.hosts]
    yield "fallow_fleet_host_up", "Whether the daemon of a host answers.", up, ("host",)
    gpus: Samples = [
        ((host.name, activity.value), float(host.status.counted.get(activity, 0)))
        for host in found.hosts
        if host.status is not None
        for activity in Activity
    ]
    yield "fallow_fleet_gpus", "GPUs of each host that answers, by what they do.", gpus, ("host", "activity")
