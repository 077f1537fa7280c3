"""When a job of a cluster is still the one that was counted."""

from fallow.core.cluster import ClusterJob, Engine, PodGpus
from fallow.core.value import replace
from fallow.policies.cluster_gate import has_joined

FIRST, SECOND, THIRD = (PodGpus("ml", f"web-{uid}", 1, uid) for uid in "abc")
BOTH = ClusterJob(Engine.KUBERNETES, "Deployment/ml/web", "web", "", (FIRST, SECOND), 20.0)


def test_the_pod_that_started_last_may_end_first_and_the_job_is_the_same() -> None:
    """By the start of its latest pod the job seemed to be stopped, and to have come back at once."""
    assert not has_joined(BOTH, replace(BOTH, places=(FIRST,), started_wall_s=10.0))


def test_a_new_pod_beside_an_old_one_makes_counting_begin_at_zero() -> None:
    assert has_joined(BOTH, replace(BOTH, places=(FIRST, THIRD), started_wall_s=10.0))
