"""What the tests of a real Kubernetes share: one control plane for each worker, and a namespace for each test."""

from collections.abc import Iterator

import pytest

from fallow.engine.cluster.kubernetes import KubernetesEngine, kubernetes_engine
from fallow.engine.machine.clock import SystemClock
from tests.real_kubernetes import MANIFESTS, ControlPlane, Namespace, control_plane


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A control plane with the rights of the manifest."""
    with control_plane() as made:
        made.apply((MANIFESTS / "rbac.yaml").read_text())
        yield made


@pytest.fixture
def kubeconfig(plane: ControlPlane) -> str:
    """The kubeconfig of the ServiceAccount that the manifest makes, which has no other right."""
    return str(plane.kubeconfig(plane.token_of("fallow-controller", "fallow")))


@pytest.fixture
def engine(kubeconfig: str) -> Iterator[KubernetesEngine]:
    """The engine, with the rights of the manifest."""
    made = kubernetes_engine(SystemClock(), kubeconfig)
    yield made
    made.close()


@pytest.fixture
def space(plane: ControlPlane) -> Namespace:
    """A namespace of its own."""
    return Namespace(plane)
