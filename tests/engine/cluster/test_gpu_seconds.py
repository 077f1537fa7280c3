"""What the GPUs of a cluster did is counted by their owners and by node, each second once."""

import pathlib
from collections import Counter

import pytest

from fallow.core.cluster import ClusterNode, Engine, PodGpus
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.engine.cluster.planned import PlannedCluster, job, reading, rule

SPARE = {"user": "games", "labels": {"partition": "scavenger"}}


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> PlannedCluster:
    """Two jobs on n1, of which one GPU works, one on n2 without a reading, and a background job on n2."""
    made = PlannedCluster(tmp_path, rule(acts=False), background=frozenset({"scavenger"}))
    made.engine.jobs = [
        job(7),
        job(8, gpus=1, first=2, user="bob"),
        job(9, gpus=1, node="n2", user="bob"),
        job(10, gpus=1, node="n2", first=1, **SPARE),
    ]
    made.engine.nodes = (ClusterNode("n1", 4), ClusterNode("n2", 4))
    made.eyes.gpus = [
        *(reading(0, 0.5), reading(1, 0.0), reading(2, 0.0), reading(3, 0.0)),
        *(reading(index, Unknown("no scrape"), node="n2") for index in range(4)),
    ]
    return made


def by_user(cluster: PlannedCluster) -> dict[tuple[str, str], float]:
    assert cluster.loop.board is not None
    found: Counter[tuple[str, str]] = Counter()
    for (did, *_, user), seconds in cluster.loop.board.seconds.by_owner.items():
        found[user, did] += round(seconds)
    return {key: seconds for key, seconds in found.items() if seconds}


def by_node(cluster: PlannedCluster) -> dict[tuple[str, ...], float]:
    assert cluster.loop.board is not None
    return {key: round(seconds) for key, seconds in cluster.loop.board.seconds.by_node.items() if seconds}


def test_each_second_of_a_gpu_is_counted_once_by_owner_and_by_node(cluster: PlannedCluster) -> None:
    board = cluster.look(11)  # ten stretches of 30 seconds
    assert by_user(cluster) == {
        ("ada", "busy"): 300,
        ("ada", "idle"): 300,
        ("bob", "idle"): 300,
        ("bob", "unknown"): 300,
        ("games", "filled"): 300,
    }
    assert by_node(cluster) == {
        ("busy", "n1"): 300,
        ("idle", "n1"): 600,
        ("free", "n1"): 300,
        ("unknown", "n2"): 300,
        ("filled", "n2"): 300,
        ("free", "n2"): 600,
    }
    assert board.seconds.by_owner["busy", "gpu", "lab", "", "", "ada"] == 300


def test_a_silent_cluster_is_unknown_what_is_filled_stays_so_and_a_gap_is_nothing(cluster: PlannedCluster) -> None:
    cluster.look()
    cluster.eyes.trouble = Unknown("silent")
    cluster.look(2)
    cluster.clock.now_s += 5000
    cluster.eyes.trouble = None
    cluster.look()
    assert by_user(cluster) == {("ada", "unknown"): 120, ("bob", "unknown"): 120, ("games", "filled"): 60}


def test_the_gpus_of_a_pod_count_for_its_node_whatever_the_metrics_call_their_host(cluster: PlannedCluster) -> None:
    pod = ("ml", "web-1")
    held = replace(job(7), engine=Engine.KUBERNETES, id="Pod/ml/web-1", places=(PodGpus(*pod, 4, node="n1"),))
    cluster.engine.jobs, cluster.engine.nodes = [held], (ClusterNode("n1", 4),)
    cluster.eyes.gpus = [reading(index, 0.5, node="fallow-node-7xk2p", pod=pod) for index in range(4)]
    cluster.look(6)
    assert by_node(cluster) == {("busy", "n1"): 600}


def test_of_more_than_500_owners_the_rest_is_other(cluster: PlannedCluster) -> None:
    cluster.engine.jobs = [job(number, gpus=1, user=f"user{number}") for number in range(600)]
    cluster.engine.nodes, cluster.eyes.gpus = (ClusterNode("n1", 1),), [reading(0, 0.5)]
    cluster.look(2)
    found = by_user(cluster)
    assert len(found) == 501
    assert found["other", "busy"] == 100 * 30
