"""fallow on a node, through a real Prometheus: a GPU is that of the pod in whose cgroup its processes are."""

import os
import pathlib
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fallow.core.cluster import ClusterJob, Engine, GpuReading, PodGpus
from fallow.core.job import JobActivity
from fallow.engine.machine.clock import SystemClock
from fallow.policies.cluster_use import ReadingIndex, job_use
from fallow.readers.prometheus.eyes import Source, open_eyes
from tests.conftest import Fallow
from tests.ports import free_ports
from tests.real_prometheus import Prometheus
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.more]

PODS = tuple(f"{digit}b8a7a44-5a3c-4d59-9a51-0c3f9d3b1e01" for digit in range(3))
ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
CONTAINER = "ab" * 32
Join = Callable[[str, int], None]


@pytest.fixture
def join() -> Iterator[Join]:
    """Put a process into the cgroup that a kubelet makes for a container of a pod."""
    root = next((path for path in map(pathlib.Path, ROOTS) if (path / "cgroup.procs").exists()), None)
    if os.geteuid() != 0 or root is None:
        pytest.skip("making a cgroup needs root")
    assert root is not None
    above = root / "kubepods-tests" / "besteffort"  # from the root on, as a kubelet does
    made: dict[pathlib.Path, None] = {}

    def enter(pod: str, pid: int) -> None:
        folder = above / f"pod{pod}" / CONTAINER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            pytest.skip(f"no process can be put into a cgroup here: {error}")
        made[folder] = None

    yield enter
    for folder in made:
        until(lambda folder=folder: not (folder / "cgroup.procs").read_text(), pause_s=0.05)
        for each in (folder, *folder.parents):
            with suppress(OSError):
                if each.is_relative_to(above.parent):
                    each.rmdir()


def test_a_gpu_is_that_of_the_pod_whose_process_is_on_it_and_neithers_if_two_are(
    tmp_path: pathlib.Path, simulated: Fallow, request: pytest.FixtureRequest
) -> None:
    join: Join = request.getfixturevalue("join")
    request.addfinalizer(simulated.end_all)  # before their cgroups are removed
    (port,) = free_ports(1)
    for gpu, pod in ((0, PODS[0]), (1, PODS[1]), (1, PODS[2])):
        holder = simulated.start_other("sleep", "1000", CUDA_VISIBLE_DEVICES=str(gpu))
        join(pod, holder.pid)
    simulated.start("up", "--listen", f"127.0.0.1:{port}")
    prometheus = Prometheus(tmp_path / "prometheus", {"gpus": [f"127.0.0.1:{port}"]})
    try:
        eyes = open_eyes(SystemClock(), prometheus.url, Source.AUTO, 3.0)
        index: list[ReadingIndex] = []

        def seen() -> dict[int | None, GpuReading]:
            readings = eyes.read()
            index[:] = [ReadingIndex(readings)]
            return {each.index: each for each in readings.gpus}

        job = ClusterJob(Engine.KUBERNETES, "Pod/ml/a", "a", "", (PodGpus("ml", "a", 1, PODS[0]),), 0.0)
        found = until(
            seen,
            lambda gpus: 0 in gpus and job_use(job, index[0]).activity is JobActivity.IDLE,
            pause_s=0.3,
        )
        assert [found[gpu].pod_uid for gpu in range(4)] == [PODS[0], "", "", ""]
        other = ClusterJob(Engine.KUBERNETES, "Pod/ml/b", "b", "", (PodGpus("ml", "b", 1, PODS[1]),), 0.0)
        assert job_use(other, index[0]).activity is JobActivity.UNKNOWN
    finally:
        prometheus.close()
