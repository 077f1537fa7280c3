"""`fallow up` on a real Kubernetes and a real Prometheus: an idle Deployment is stopped, and nothing else."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.real_kubernetes import ControlPlane, Namespace
from tests.real_prometheus import Exporter, Prometheus, profiled_gpu
from tests.waiting import PROGRAM_S, until

pytestmark = [pytest.mark.engine, pytest.mark.more]

CONFIG = """
[cluster]
engine = "kubernetes"
kubeconfig = "{kubeconfig}"
prometheus = "{prometheus}"
metrics = "dcgm"
scrape_interval = "3s"
every = "1s"

[[cluster.idle]]
name = "idle"
act = {act}
idle_for = "12s"
warn_before = "8s"
namespaces = ["{namespace}"]
"""


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter()
    yield made
    made.close()


@pytest.fixture
def prometheus(tmp_path: pathlib.Path, exporter: Exporter) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path / "prometheus", {"dcgm": [exporter.address]})
    yield made
    made.close()


def started(
    fallow: Fallow,
    space: Namespace,
    kubeconfig: str,
    prometheus: Prometheus,
    *,
    act: bool,
    words: tuple[str, ...] = (),
) -> None:
    path = fallow.home / "fallow.toml"
    path.write_text(
        CONFIG.format(kubeconfig=kubeconfig, prometheus=prometheus.url, act=str(act).lower(), namespace=space.name)
    )
    fallow.start("up", "--config", str(path), *words)


def replicas(space: Namespace, name: str) -> int:
    return int(space.get("Deployment", name)["spec"]["replicas"])


def troubles(fallow: Fallow) -> list[str]:
    said = fallow("status", "--cluster", "--json")
    return list(json.loads(said.stdout)["troubles"]) if said.returncode == 0 else []


def test_an_idle_deployment_is_warned_and_scaled_to_zero_though_the_api_server_was_killed_and_no_other_one_is(
    plane: ControlPlane,
    space: Namespace,
    kubeconfig: str,
    exporter: Exporter,
    prometheus: Prometheus,
    simulated: Fallow,
) -> None:
    pods = {name: space.run("Deployment", name, replicas=1, gpus=2) for name in ("idle", "busy", "dark")}
    pods["kept"] = space.run("Deployment", "kept", replicas=1, gpus=1, fallow_protect="yes")
    exporter.text = "".join(
        profiled_gpu("gpu1", index, load, namespace=space.name, pod=pods[name][0])
        for index, (name, load) in enumerate([("idle", 0), ("idle", 0), ("busy", 0), ("busy", 90), ("kept", 0)])
    )
    prometheus.scrapes("dcgm", 3)
    started(simulated, space, kubeconfig, prometheus, act=True)
    until(lambda: space.events("idle"), pause_s=0.2)
    assert "fallow.stops-at" in space.get("Deployment", "idle")["metadata"]["annotations"]

    plane.kill_api_server()
    try:
        until(lambda: troubles(simulated), pause_s=PROGRAM_S)
    finally:
        plane.start_api_server()
    until(lambda: replicas(space, "idle"), lambda count: count == 0, pause_s=0.2)
    until(lambda: space.pods("idle"), lambda left: not left, pause_s=0.2)
    assert space.get("Deployment", "idle")["metadata"]["annotations"]["fallow.stopped-from"] == "1"
    until(
        lambda: space.events("idle"), lambda told: "FallowStopped" in {each["reason"] for each in told}, pause_s=0.2
    )
    for name in ("busy", "dark", "kept"):
        assert replicas(space, name) == 1
        assert space.events(name) == []

    named = f"deployment:{space.name}/idle"
    done = simulated("wake", named, KUBECONFIG=kubeconfig)
    assert done.returncode == 0, done.stderr
    assert replicas(space, "idle") == 1
    why = simulated("why", named)
    assert "scaled from 1 to zero" in why.stdout, why.stderr
