"""Whose protections count for a job of a cluster: those of its user, of root, and of who runs the daemon."""

import math

import pytest

from fallow.core.cluster import ClusterJob, Engine, NodeGpu, PodGpus
from fallow.core.protections import ClusterPart, Everything, OneClusterJob, OneUser, Protection, Target
from fallow.core.value import replace
from fallow.policies.arbiter import ProtectRules
from fallow.policies.cluster_gate import left_alone

ADAS = ClusterJob(Engine.SLURM, "7", "train", "ada", (NodeGpu("n1", 0),), 0.0, labels={"partition": "gpu"})
NOBODYS = ClusterJob(Engine.KUBERNETES, "Deployment/ml/web", "web", "", (PodGpus("ml", "web-1", 1),), 0.0)


def is_left(job: ClusterJob, target: Target, by: str, number: int = 100_000_000) -> bool:
    protection = Protection(number, target, math.inf, "", by)
    return left_alone(job, frozenset(), [protection], ProtectRules(), 0.0, frozenset(("root", "fallow"))) is not None


@pytest.mark.parametrize(
    "target",
    [
        OneClusterJob("slurm:7"),
        OneUser("ada"),
        ClusterPart("partition", "gpu"),
        ClusterPart("node", "n1"),
        Everything(),
    ],
)
def test_a_job_is_protected_by_its_user_root_and_who_runs_the_daemon_and_by_nobody_else(target: Target) -> None:
    assert is_left(ADAS, target, "ada")
    assert is_left(ADAS, target, "root")
    assert is_left(ADAS, target, "fallow")
    assert not is_left(ADAS, target, "mallory")


def test_the_protection_of_a_node_covers_the_pods_on_it() -> None:
    on_n1 = replace(NOBODYS, places=(PodGpus("ml", "web-1", 1, node="n1"),))
    assert is_left(on_n1, ClusterPart("node", "n1"), "root")
    assert not is_left(on_n1, ClusterPart("node", "n2"), "root")


def test_protections_that_cannot_be_read_protect_everything() -> None:
    assert is_left(ADAS, Everything(), "somebody", number=0)


def test_a_job_without_a_user_is_protected_by_anybody_who_names_it_and_not_by_one_who_names_all() -> None:
    assert is_left(NOBODYS, OneClusterJob(NOBODYS.key), "bob")
    assert is_left(NOBODYS, ClusterPart("pod", "ml/web-1"), "bob")
    assert not is_left(NOBODYS, Everything(), "bob")
    assert is_left(NOBODYS, Everything(), "root")
