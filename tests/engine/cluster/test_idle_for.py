"""What people say about how long a job may be idle counts where it is longer than the rule's own time."""

import pathlib
from collections.abc import Iterator, Mapping

import pytest

from fallow.core.kubernetes import longest_idle_s, opt_out
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kubernetes import kubernetes_engine
from fallow.engine.machine.clock import SystemClock
from tests.engine.cluster.planned import PlannedCluster, job
from tests.engine.cluster.test_loop import cluster
from tests.readers.kubernetes.broken_api import BrokenApi, deployment, listed, pod

__all__ = ["cluster"]
HOUR_S = 3600.0


def test_a_longer_time_that_is_said_after_a_warning_takes_the_warning_back_and_the_time_goes_on_counting(
    cluster: PlannedCluster,
) -> None:
    cluster.minutes(6)
    cluster.engine.jobs = [job(7, idle_for_s=HOUR_S)]
    cluster.look()
    assert cluster.done == ["warn 7", "cancel 7"]
    assert cluster.view(7).idle_s > 300
    assert any("may be idle for 1h" in line for line in cluster.said)
    cluster.minutes(47)
    assert cluster.done == ["warn 7", "cancel 7"]
    cluster.minutes(7.5)
    assert cluster.done == ["warn 7", "cancel 7", "warn 7", "ask 7"]


def test_a_longer_time_that_is_said_between_the_look_and_the_action_is_seen(cluster: PlannedCluster) -> None:
    cluster.minutes(10)
    assert cluster.done == ["warn 7"]
    cluster.engine.looks = 0
    cluster.engine.again = [[job(7, idle_for_s=HOUR_S)]]
    cluster.look()
    assert cluster.done == ["warn 7"]
    assert "may be idle" in str(cluster.view(7).refused)


@pytest.fixture
def api(tmp_path: pathlib.Path) -> Iterator[BrokenApi]:
    made = BrokenApi(tmp_path)
    made.answers["/api/v1/nodes"] = listed()
    yield made
    made.close()


Said = Mapping[str, str]


def found(api: BrokenApi, top: Said, pods: list[Said], space: Said) -> tuple[float | None, str | None]:
    """Return how long the Deployment may be idle, and the kind of the reason that protects it."""
    api.answers |= {
        "/api/v1/pods": listed(*(pod(f"p{n}", "llama", annotations=said) for n, said in enumerate(pods))),
        "/api/v1/namespaces": listed({"metadata": {"name": "ml", "uid": "u", "annotations": space}}),
        "/apis/apps/v1/deployments": listed(deployment("llama", annotations=top)),
    }
    engine = kubernetes_engine(SystemClock(), str(api.kubeconfig))
    jobs = engine.look().jobs
    engine.close()
    assert not isinstance(jobs, Unknown)
    (one,) = jobs
    return one.idle_for_s, None if one.opt_out is None else one.opt_out.kind


@pytest.mark.engine
@pytest.mark.more
def test_the_longest_time_of_the_object_and_its_pods_counts_and_without_any_that_of_the_namespace(
    api: BrokenApi,
) -> None:
    def hours(text: str) -> Said:
        return {"fallow.idle-for": text}

    assert found(api, {}, [{}], {}) == (None, None)
    assert found(api, hours("8h"), [{}, {}], {}) == (8 * HOUR_S, None)
    assert found(api, {}, [{}, hours("3h")], {}) == (3 * HOUR_S, None)
    assert found(api, hours("1h"), [hours("2h"), {}], hours("9h")) == (2 * HOUR_S, None)
    assert found(api, {}, [{}], hours("9h")) == (9 * HOUR_S, None)
    for wrong in (
        found(api, hours("soon"), [{}], hours("9h")),
        found(api, {}, [hours("8")], {}),
        found(api, {}, [{}], hours("0s")),
    ):
        assert wrong[1] == "annotation_unclear", "its author wanted something, and nobody knows what"


@pytest.mark.parametrize("text", ["", "8", "0h", "8h\x1b[2J"])
def test_a_time_that_cannot_be_read_is_no_time_and_is_told(text: str) -> None:
    said = {"fallow.idle-for": text}
    assert longest_idle_s([said]) is None
    why = opt_out(said, "Deployment/ml/llama", 0.0)
    assert why is not None
    assert "cannot be read; write fallow.idle-for=8h" in str(why)
    assert str(why).isprintable()
    assert len(str(why)) < 200
