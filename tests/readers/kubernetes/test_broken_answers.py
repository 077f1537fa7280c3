"""Whatever an API server answers, nothing is believed that was not said, and nothing is stopped on a doubt."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from fallow.core.actions import Ask
from fallow.core.cluster import ClusterJob
from fallow.core.kubernetes import opt_out, replicas_before
from fallow.core.reasons import Reason
from fallow.core.unknown import Unknown
from fallow.engine.cluster.kube_connection import run_plugin
from fallow.engine.cluster.kubernetes import KubernetesEngine
from fallow.engine.machine.clock import SystemClock
from fallow.readers.kubernetes.connection import KubeConnection
from tests.readers.kubernetes.broken_api import Answer, BrokenApi, deployment, listed, pod

IDLE = Ask(Reason("idle", for_s=60.0, readings="nothing ran"))
PODS, NODES, SPACES = "/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"
DEPLOYMENTS = "/apis/apps/v1/deployments"
ONE = "/apis/apps/v1/namespaces/ml/deployments/llama"


@pytest.fixture
def api(tmp_path: pathlib.Path) -> Iterator[BrokenApi]:
    made = BrokenApi(tmp_path)
    made.answers = {
        PODS: listed(pod("a", "llama")),
        NODES: listed(),
        SPACES: listed(),
        DEPLOYMENTS: listed(deployment("llama")),
        ONE: (200, deployment("llama")),
    }
    yield made
    made.close()


def connected(api: BrokenApi, **limits: Any) -> KubeConnection:
    clock = SystemClock()
    return KubeConnection(clock, run_plugin, str(api.kubeconfig), **limits)


@pytest.fixture
def engine(api: BrokenApi) -> Iterator[KubernetesEngine]:
    made = KubernetesEngine(connected(api, most_bytes=1 << 16), SystemClock())
    yield made
    made.close()


def only_job(engine: KubernetesEngine) -> ClusterJob:
    jobs = engine.look().jobs
    assert not isinstance(jobs, Unknown), jobs.why
    (job,) = jobs
    return job


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        (PODS, (200, b"no JSON")),
        (PODS, (500, {"message": "etcd is slow"})),
        (PODS, (200, b'{"items": [' + b" " * (1 << 17))),
        (SPACES, (403, {"message": "no"})),
    ],
)
def test_a_list_that_cannot_be_read_makes_all_jobs_unknown(
    api: BrokenApi, engine: KubernetesEngine, path: str, answer: Answer
) -> None:
    assert only_job(engine).id == "Deployment/ml/llama"
    api.answers[path] = answer
    assert isinstance(engine.look().jobs, Unknown)


def test_a_list_whose_second_page_is_missing_is_unknown(api: BrokenApi, engine: KubernetesEngine) -> None:
    api.answers[PODS] = listed(pod("a", "llama"), onward="token")
    api.answers["/api/v1/pods?limit=500&fieldSelector=x"] = (200, {})
    gone = f"{PODS}?limit=500&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&continue=token"
    api.answers[gone] = (410, {"message": "the list has expired"})
    looked = engine.look().jobs
    assert isinstance(looked, Unknown)
    assert "410" in looked.why


def test_an_answer_that_takes_too_long_is_given_up(api: BrokenApi) -> None:
    api.pause_s = 0.05
    engine = KubernetesEngine(connected(api, within_s=0.5), SystemClock())
    looked = engine.look().jobs
    engine.close()
    assert isinstance(looked, Unknown)
    assert "within 0.5 s" in looked.why


def use_plugin(api: BrokenApi, script: str) -> pathlib.Path:
    """Have the kubeconfig name a program for its token; return the file to which each run adds a line."""
    runs, program = api.kubeconfig.with_name("runs"), api.kubeconfig.with_name("plugin")
    program.write_text(f'#!/bin/sh\necho $$ "$GREETING" >> {runs}\n{script}\n')
    program.chmod(0o755)
    about = json.loads(api.kubeconfig.read_text())
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "env": [{"name": "GREETING", "value": "hello"}],
    }
    about["users"][0]["user"] = {"exec": plugin}
    api.kubeconfig.write_text(json.dumps(about))
    return runs


def test_a_plugin_of_the_kubeconfig_that_hangs_is_ended_and_named(api: BrokenApi) -> None:
    runs = use_plugin(api, "exec sleep 100000")
    engine = KubernetesEngine(connected(api, within_s=0.5), SystemClock())
    looked = engine.look().jobs
    engine.close()
    assert isinstance(looked, Unknown)
    assert "exec plugin" in looked.why
    assert "plugin did not answer within" in looked.why
    for line in runs.read_text().splitlines() if runs.exists() else ():
        assert not pathlib.Path("/proc", line.split()[0]).exists()


@pytest.mark.parametrize("script", ["echo no JSON", "echo '{\"status\": {}}'", "echo 'log in first' >&2; exit 1"])
def test_a_plugin_that_gives_no_token_is_told(api: BrokenApi, script: str) -> None:
    use_plugin(api, script)
    engine = KubernetesEngine(connected(api), SystemClock())
    looked = engine.look().jobs
    engine.close()
    assert isinstance(looked, Unknown)
    assert "token" in looked.why
    assert "log in first" in looked.why or "exit" not in script


def test_a_plugin_is_run_once_and_again_when_its_token_has_ended(api: BrokenApi) -> None:
    runs = use_plugin(api, """echo '{"status": {"token": "t"}}'""")
    engine = KubernetesEngine(connected(api), SystemClock())
    assert only_job(engine).id == only_job(engine).id == "Deployment/ml/llama"
    assert [line.split()[1] for line in runs.read_text().splitlines()] == ["hello"]
    api.answers[PODS] = (401, {"message": "Unauthorized"})
    looked = engine.look().jobs
    engine.close()
    assert isinstance(looked, Unknown)
    assert "401" in looked.why
    assert len(runs.read_text().splitlines()) == 2


@pytest.mark.parametrize("answer", [(403, {}), listed(), (200, b"x")])
def test_an_owner_that_cannot_be_read_is_reported_and_has_no_way(
    api: BrokenApi, engine: KubernetesEngine, answer: Answer
) -> None:
    api.answers[DEPLOYMENTS] = answer
    job = only_job(engine)
    assert job.id == "Deployment/ml/llama"
    assert job.no_way


@pytest.mark.parametrize(
    "answer",
    [
        (500, {"message": "\x1b[2J" + "x" * 5000}),
        (200, {}),
        (200, deployment("llama", uid="another")),
        (200, deployment("llama", generation=2)),
        (200, deployment("llama", replicas=None)),
        (200, deployment("llama", annotations={"fallow.protect": "perhaps"})),
    ],
)
def test_what_cannot_be_read_again_is_not_changed(api: BrokenApi, engine: KubernetesEngine, answer: Answer) -> None:
    job = only_job(engine)
    api.answers[ONE] = answer
    asked = engine.ask(job, IDLE)
    assert not asked.ok
    assert asked.words.isprintable()
    assert len(asked.words) < 400
    assert api.changes == []


def test_a_scale_that_is_refused_leaves_no_mark_behind(api: BrokenApi, engine: KubernetesEngine) -> None:
    job = only_job(engine)
    api.answers[f"{ONE}/scale"] = (403, {})
    asked = engine.ask(job, IDLE)
    assert "patch deployments/scale (apps) in the namespace ml" in asked.words
    marked, scaled, taken_off = api.changes
    assert marked[2]["metadata"]["resourceVersion"] == "7"
    assert scaled[2] == {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 0}}
    assert set(taken_off[2]["metadata"]["annotations"].values()) == {None}


def test_somebody_who_changes_it_meanwhile_keeps_it(api: BrokenApi, engine: KubernetesEngine) -> None:
    job = only_job(engine)
    api.answers[f"{ONE}/scale"] = (409, {})
    assert "again and again" in engine.ask(job, IDLE).words
    assert set(api.changes[-1][2]["metadata"]["annotations"].values()) == {None}


@pytest.mark.parametrize(
    ("said", "protects"),
    [
        ({}, False),
        ({"fallow.protect": "no"}, False),
        ({"fallow.protect-until": "2001-01-01"}, False),
        ({"fallow.protect": "perhaps"}, True),
        ({"fallow.protect-until": "soon"}, True),
        ({"fallow.idle-for": "long"}, True),
    ],
)
def test_an_annotation_that_cannot_be_read_protects(said: dict[str, str], *, protects: bool) -> None:
    assert (opt_out(said, "Deployment/ml/llama", 1e9) is not None) is protects


@pytest.mark.parametrize(("text", "count"), [("3", 3), ("0", None), ("-1", None), ("x", None), ("99999999", None)])
def test_only_a_plain_count_is_scaled_back_to(text: str, count: int | None) -> None:
    assert replicas_before({"fallow.stopped-from": text}) == count
