"""Commands in the documents for Kubernetes are run against a real API server, with kubectl where they say so."""

import os
import pathlib
import re
import shutil
from collections.abc import Iterator

import pytest

from tests.house.commands import blocks_run_by
from tests.house.stage import Stage
from tests.places import REPOSITORY
from tests.real_kubernetes import ADMIN, ControlPlane, Namespace, control_plane
from tests.real_prometheus import Exporter, Prometheus, profiled_gpu
from tests.waiting import PROGRAM_S, until

BLOCKS = blocks_run_by(__file__)
CLUSTER = """
[cluster]
engine = "kubernetes"
kubeconfig = "{kubeconfig}"
prometheus = "{prometheus}"
metrics = "dcgm"
scrape_interval = "3s"
every = "1s"

[[cluster.idle]]
name = "idle"
idle_for = "1h"
"""

pytestmark = [pytest.mark.engine, pytest.mark.more]


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; try scripts/engines kubernetes")
    with control_plane() as made:
        yield made


@pytest.fixture
def stage(plane: ControlPlane, tmp_path: pathlib.Path) -> Iterator[Stage]:
    """A person at a machine who has the rights of an administrator in the cluster."""
    made = Stage(tmp_path / "stage", with_daemon=False)
    made.fallow.environ["KUBECONFIG"] = str(plane.kubeconfig(ADMIN))
    os.symlink(REPOSITORY / "examples", made.folder / "examples")
    yield made
    made.close()


@pytest.fixture
def prometheus(tmp_path: pathlib.Path) -> Iterator[tuple[Prometheus, Exporter]]:
    exporter = Exporter()
    made = Prometheus(tmp_path / "prometheus", {"dcgm": [exporter.address]})
    yield made, exporter
    made.close()
    exporter.close()


def test_every_command_for_kubernetes_runs(
    plane: ControlPlane, stage: Stage, prometheus: tuple[Prometheus, Exporter]
) -> None:
    metrics, exporter = prometheus
    space = Namespace(plane)
    (pod,) = space.run("Deployment", "llama", replicas=1)
    exporter.text = profiled_gpu("gpu1", 0, 0, namespace=space.name, pod=pod)
    metrics.scrapes("dcgm", 3)
    config = stage.fallow.home / "fallow.toml"
    config.write_text(CLUSTER.format(kubeconfig=stage.fallow.environ["KUBECONFIG"], prometheus=metrics.url))
    stage.fallow.start("up", "--config", str(config), "--listen", "127.0.0.1:0")
    llama = f"deployment:{space.name}/llama"
    until(lambda: stage.fallow("status", "--cluster").stdout, lambda said: llama in said, pause_s=PROGRAM_S)
    for block in BLOCKS:
        for line in block.lines:
            command = line.partition(" # ")[0].strip()
            if "resume deployment" in command:
                stopped = stage.fallow("stop", llama, "--yes")
                assert stopped.returncode == 0, stopped.stderr
            done = stage.bash(in_namespace(command, space.name))
            assert done.returncode == 0, f"{block.place}: {line}\n{done.stderr}"
        for name in ("protect", "protect-until", "idle-for"):  # the next block finds it as the first one did
            for what in (f"namespace {space.name}", f"-n {space.name} deployment/llama"):
                stage.bash(f"kubectl annotate {what} fallow.{name}-")
    assert space.get("Deployment", "llama")["spec"]["replicas"] == 1


def in_namespace(command: str, name: str) -> str:
    """Return a command with the namespace of this test for that of the pages."""
    return re.sub(r"(?<=-n )ml\b|(?<=namespace )ml\b|\bml(?=/)", name, command)
