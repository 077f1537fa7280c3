"""The view of a cluster: what is available, what is wasted, and whose names are shown."""

import pytest

from fallow.core.cluster import ClusterBoard, NodeGpu
from fallow.core.cluster_names import cluster_target, names_cluster, subject_of
from fallow.core.cluster_view import cluster_view, idle_by, meant, narrowed
from fallow.core.errors import WrongUsage
from fallow.core.protections import ClusterPart, OneClusterJob, OneUser, parse_target
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from fallow.core.visibility import ANYBODY, EVERYTHING, Viewer
from tests.interfaces.web.clusters import (
    fell_silent,
    filled,
    filled_unread,
    pods,
    silent,
    slurm_job,
    small,
)


def test_gpus_are_free_busy_idle_unknown_or_out() -> None:
    view = cluster_view(small(), ANYBODY)
    assert view.counts == {"free": 1, "filled": 0, "busy": 2, "idle": 4, "unknown": 1, "out": 4}
    assert view.total == 12


def test_without_nodes_it_is_not_known_what_can_be_had() -> None:
    view = cluster_view(small(nodes=(), troubles=("the controller does not answer",)), ANYBODY)
    assert isinstance(view.counts["free"], Unknown)
    assert isinstance(view.counts["out"], Unknown)
    assert isinstance(view.total, Unknown)
    assert view.counts["idle"] == 4


def unknown_counts(board: ClusterBoard) -> list[str]:
    return [name for name, number in cluster_view(board, ANYBODY).counts.items() if isinstance(number, Unknown)]


def test_an_engine_that_lists_nothing_makes_no_zeros() -> None:
    assert unknown_counts(silent()) == ["free", "filled", "busy", "idle", "unknown", "out"]
    assert not cluster_view(silent(), ANYBODY).jobs_listed


def test_while_the_engine_is_silent_the_gpus_of_its_earlier_jobs_are_unknown_and_no_number_is_of_now() -> None:
    view = cluster_view(fell_silent(), ANYBODY)
    assert unknown_counts(fell_silent()) == ["free", "filled", "busy", "idle", "out"]
    assert (view.counts["unknown"], view.jobs_listed) == (7, False)
    assert all(isinstance(node.held, Unknown) and isinstance(node.idle, Unknown) for node in view.nodes)


def test_what_only_a_background_job_holds_is_filled_and_nobody_wastes_it_unless_no_job_can_begin_there() -> None:
    view = cluster_view(filled(), ANYBODY)
    assert view.counts == {"free": 4, "filled": 2, "busy": 0, "idle": 2, "unknown": 0, "out": 4}
    assert view.total == 12
    assert [(node.held, node.idle, node.filled) for node in view.nodes] == [(3, 2, 1), (1, 0, 1), (1, 0, 1)]
    ada, *background = view.jobs
    assert (ada.activity, ada.idle_gpus) == ("idle", 2)
    assert {(job.activity, job.idle_gpus, job.idle_s, job.reason.kind) for job in background} == {
        ("filled", 0, 0.0, "cluster_background")
    }
    assert sum(idle_by(view.jobs, ()).values()) == 2


def test_without_metrics_it_is_known_what_is_filled_and_not_what_others_do() -> None:
    view = cluster_view(filled_unread(), ANYBODY)
    assert unknown_counts(filled_unread()) == ["busy", "idle"]
    assert (view.counts["free"], view.counts["filled"], view.counts["unknown"], view.total) == (4, 2, 2, 12)
    assert [isinstance(node.idle, Unknown) for node in view.nodes] == [True, False, False]
    alone = replace(filled_unread(), jobs=filled_unread().jobs[:3])
    assert unknown_counts(alone) == [], "no other job holds a GPU, so none is idle"


def test_a_background_job_of_an_earlier_look_fills_nothing_that_is_known_now() -> None:
    board = replace(filled_unread(), engine_answers=False)
    view = cluster_view(board, ANYBODY)
    assert unknown_counts(board) == ["free", "filled", "busy", "idle", "out"]
    assert view.counts["unknown"] == 5
    assert {job.activity for job in view.jobs} == {"unknown"}
    assert all(isinstance(node.filled, Unknown) for node in view.nodes)


def test_the_name_of_a_slurm_job_is_shown_to_its_user_and_to_root_only() -> None:
    def names(viewer: Viewer) -> list[object]:
        return [job.name for job in cluster_view(small(), viewer).jobs if not isinstance(job.name, Unknown)]

    assert names(ANYBODY) == []
    assert names(Viewer("ada")) == ["train-1234"]
    assert len(names(EVERYTHING)) == 4


def test_pods_are_counted_by_the_gpus_that_were_found_and_the_rest_is_unknown() -> None:
    view = cluster_view(pods(), ANYBODY)
    web, lost = view.jobs
    assert (web.subject, web.name, web.gpus, web.idle_gpus) == ("deployment:ml/web", "web", 3, 2)
    assert web.nodes == ("k1", "k2")
    assert (lost.subject, lost.unknown_gpus) == ("pod:ml/lost", 4)
    assert [(node.name, node.held, node.idle) for node in view.nodes] == [("k1", 5, 1), ("k2", 2, 1)]
    assert view.counts == {"free": 9, "filled": 0, "busy": 1, "idle": 2, "unknown": 4, "out": 0}


def test_nodes_in_trouble_and_with_idle_gpus_are_shown_before_others() -> None:
    view = narrowed(cluster_view(small(), ANYBODY), 1, 2)
    assert [node.name for node in view.nodes] == ["n3", "n1"]
    assert (view.more_jobs, view.more_nodes) == (3, 1)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("slurm:90", ["slurm:90"]),
        ("node:n2", ["slurm:90", "slurm:7", "slurm:91"]),
        ("partition:gpu", ["slurm:1234", "slurm:90", "slurm:7", "slurm:91"]),
        ("account:other", []),
    ],
)
def test_a_subject_means_its_jobs(text: str, keys: list[str]) -> None:
    assert [job.key for job in cluster_view(meant(small(), cluster_target(text)), ANYBODY).jobs] == keys


def test_an_array_means_all_its_tasks_and_a_task_only_itself() -> None:
    tasks = tuple(slurm_job(7, "bob", (NodeGpu("n1", at),), id=f"7_{at}") for at in range(2))
    board = small(jobs=(*tasks, slurm_job(70, "bob", (NodeGpu("n2", 0),))))

    def keys(text: str) -> list[str]:
        return [job.key for job in cluster_view(meant(board, cluster_target(text)), ANYBODY).jobs]

    assert keys("slurm:7") == ["slurm:7_0", "slurm:7_1"]
    assert keys("slurm:7_1") == ["slurm:7_1"]


def test_a_user_means_their_jobs_and_a_pod_the_job_that_it_belongs_to() -> None:
    assert [job.key for job in cluster_view(meant(small(), OneUser("bob")), ANYBODY).jobs] == ["slurm:7"]
    found = cluster_view(meant(pods(), cluster_target("pod:ml/web-2")), ANYBODY)
    assert [job.subject for job in found.jobs] == ["deployment:ml/web"]
    assert [job.subject for job in cluster_view(meant(pods(), ClusterPart("pod", "ml/lost")), ANYBODY).jobs] == [
        "pod:ml/lost"
    ]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("slurm:1234", "slurm:1234"),
        ("slurm:1234_7", "slurm:1234_7"),
        ("deployment:ml/web", "kubernetes:Deployment/ml/web"),
        ("statefulset:ml/db", "kubernetes:StatefulSet/ml/db"),
        ("job:ml/nightly", "kubernetes:Job/ml/nightly"),
        ("rayjob:ml/tune", "kubernetes:RayJob/ml/tune"),
        ("kubernetes:Notebook/ml/ada", "kubernetes:Notebook/ml/ada"),
    ],
)
def test_a_job_has_one_key_and_is_protected_by_it(text: str, key: str) -> None:
    target = cluster_target(text)
    assert target == OneClusterJob(key)
    assert parse_target(str(target)) == target, "the file of a protection is read back"
    assert cluster_target(subject_of(key)) == target


@pytest.mark.parametrize(
    "text",
    ["slurm:", "slurm:abc", "slurm:1;rm", "deployment:web", "deployment:ML/web", "node:", "node:a b", "job:1234"],
)
def test_what_names_nothing_is_told_with_a_way_to_write_it(text: str) -> None:
    with pytest.raises(WrongUsage) as told:
        cluster_target(text)
    assert told.value.way


def test_a_notebook_without_a_namespace_is_one_of_this_machine() -> None:
    assert not names_cluster("notebook:train")
    assert names_cluster("notebook:ml/ada")
    assert not names_cluster("gpu:3")
