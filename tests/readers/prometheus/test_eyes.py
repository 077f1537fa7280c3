"""What a real Prometheus says of GPUs that work, idle, vanish and lie."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from fallow.core.cluster import GpuReading, Readings
from fallow.core.unknown import Unknown
from fallow.engine.machine.clock import SystemClock
from fallow.readers.prometheus.eyes import PrometheusEyes, Source, open_eyes
from tests.conftest import Fallow
from tests.ports import free_ports
from tests.real_prometheus import Exporter, Prometheus, dcgm_gpu, metrics
from tests.waiting import until

INTERVAL_S = 3.0
"""The longest time between two scrapes here: one a second, on a machine on which much else runs."""


class Cluster:
    """Exporters, the Prometheus that scrapes them, and the eyes on it."""

    def __init__(self, home: pathlib.Path, exporters: list[Exporter], labels: dict[str, str] | None = None) -> None:
        self.exporters = exporters
        self.prometheus = Prometheus(home / "prometheus", {"gpus": [each.address for each in exporters]}, labels)
        self.eyes = self.open()

    def open(self, source: Source = Source.AUTO) -> PrometheusEyes:
        return open_eyes(SystemClock(), self.prometheus.url, source, INTERVAL_S)

    def read(self) -> Readings:
        return self.eyes.read()

    def gpu(self, uuid: str) -> GpuReading | None:
        """Read, and return one GPU; None if it is not listed."""
        found = self.read()
        return next((each for each in found.gpus if each.key.uuid == uuid), None)

    def known(self, uuid: str) -> GpuReading:
        """Read until it is known what a GPU did since the last look, and return that."""
        found = until(
            lambda: self.gpu(uuid),
            lambda seen: seen is not None and not isinstance(seen.utilization, Unknown),
            pause_s=0.2,
        )
        assert found is not None
        return found


Make = Callable[..., Cluster]


@pytest.fixture
def make(tmp_path: pathlib.Path) -> Iterator[Make]:
    """Clusters of exporters that say the given texts; everything is ended afterwards."""
    exporters: list[Exporter] = []
    clusters: list[Cluster] = []

    def start(*texts: str, **labels: str) -> Cluster:
        exporters.extend(Exporter(text) for text in texts)
        clusters.append(Cluster(tmp_path, exporters, labels))
        clusters[-1].prometheus.scrapes("gpus", 3)
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.prometheus.close()
    for exporter in exporters:
        exporter.close()


def is_idle(seen: GpuReading | None) -> bool:
    return seen is not None and not isinstance(seen.utilization, Unknown) and seen.utilization < 0.01


@pytest.mark.more
def test_gpus_of_dcgm_exporter_are_read_with_their_node_index_memory_and_pod(make: Make) -> None:
    about = {"gpu": "1", "UUID": "GPU-n2-1", "Hostname": "n2"}
    figures = metrics(("DCGM_FI_DEV_FB_USED", about, 1024))
    # Prometheus has a namespace and a pod of the exporter itself, so it renames those of the GPU.
    cluster = make(
        dcgm_gpu("n1", 0, 0),
        dcgm_gpu("n2", 1, 37, namespace="team", pod="train-0") + figures,
        namespace="monitoring",
        pod="dcgm-exporter-x",
    )
    busy = cluster.known("GPU-n2-1")
    assert (busy.key.host, busy.index, busy.utilization) == ("n2", 1, 0.37)
    assert busy.memory_used_bytes == 1 << 30
    assert busy.pod == ("team", "train-0")
    assert is_idle(cluster.known("GPU-n1-0"))


@pytest.mark.more
def test_what_a_gpu_did_between_two_looks_is_seen(make: Make) -> None:
    cluster = make(dcgm_gpu("n1", 0, 0))
    (exporter,) = cluster.exporters
    cluster.known("GPU-n1-0")
    exporter.text = dcgm_gpu("n1", 0, 80)
    until(lambda: cluster.prometheus.found("DCGM_FI_DEV_GPU_UTIL == 80"), pause_s=0.1)
    exporter.text = dcgm_gpu("n1", 0, 0)
    until(lambda: cluster.prometheus.found("DCGM_FI_DEV_GPU_UTIL == 0"), pause_s=0.1)
    seen = cluster.gpu("GPU-n1-0")
    assert seen is not None
    assert not is_idle(seen)
    until(lambda: cluster.gpu("GPU-n1-0"), is_idle, pause_s=0.2)


@pytest.mark.more
def test_exporters_that_vanish_and_freeze_make_their_gpus_unknown_and_others_go_on(make: Make) -> None:
    cluster = make(dcgm_gpu("n1", 0, 0), dcgm_gpu("n2", 0, 0), dcgm_gpu("n3", 0, 0))
    for host in ("n1", "n2", "n3"):
        assert is_idle(cluster.known(f"GPU-{host}-0"))

    def idle_hosts() -> set[str]:
        return {each.key.host for each in cluster.read().gpus if is_idle(each)}

    cluster.exporters[0].vanish()
    cluster.exporters[1].thaws.clear()
    until(idle_hosts, lambda idle: not idle & {"n1", "n2"}, pause_s=0.2)
    for _ in range(5):
        assert idle_hosts() <= {"n3"}
    assert is_idle(cluster.known("GPU-n3-0"))
    cluster.exporters[0].come_back()
    cluster.exporters[1].thaws.set()
    until(idle_hosts, lambda idle: idle == {"n1", "n2", "n3"}, pause_s=0.2)


ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


@pytest.mark.more
def test_a_mig_instance_is_read_by_the_only_metric_that_works_for_it(make: Make) -> None:
    one = dcgm_gpu("n1", 0, 0.25, ENGINE, GPU_I_ID="1") + dcgm_gpu("n1", 0, 0, GPU_I_ID="1")
    cluster = make(one + dcgm_gpu("n1", 0, 0, ENGINE, GPU_I_ID="2"))
    assert cluster.known("GPU-n1-0/1").utilization == 0.25
    assert is_idle(cluster.known("GPU-n1-0/2"))


@pytest.mark.engine
def test_gpus_of_fallow_are_read_with_their_host_and_processes(tmp_path: pathlib.Path, simulated: Fallow) -> None:
    (port,) = free_ports(1)
    simulated.start("up", "--listen", f"127.0.0.1:{port}")
    holder = simulated.start_other("sleep", "1000", CUDA_VISIBLE_DEVICES="0")
    simulated.start_other("python3", "-c", "while True: pass", CUDA_VISIBLE_DEVICES="1")
    prometheus = Prometheus(tmp_path / "prometheus", {"gpus": [f"127.0.0.1:{port}"]})
    try:
        eyes = open_eyes(SystemClock(), prometheus.url, Source.AUTO, INTERVAL_S)

        def both() -> dict[int | None, GpuReading]:
            seen = {each.index: each for each in eyes.read().gpus}
            return {} if any(isinstance(each.utilization, Unknown) for each in seen.values()) else seen

        seen = until(
            both,
            lambda seen: len(seen) == 4 and seen[0].processes == 1 and not is_idle(seen[1]) and is_idle(seen[0]),
            pause_s=0.3,
        )
        assert len({each.key.host for each in seen.values()}) == 1
        assert seen[0].key.host != "127.0.0.1"
        assert isinstance(seen[0].memory_used_bytes, int)
        assert seen[2].processes == 0
        assert holder.poll() is None
    finally:
        prometheus.close()
