"""`why`, `idle`, `protect` and `stop` with jobs and parts of a cluster, beside a daemon that shows one."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.clustered import watching, watching_alone
from tests.interfaces.web.clusters import SILENT


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fallow]:
    with watching_alone(tmp_path_factory) as fallow:
        yield fallow


def test_why_says_what_a_job_does_what_follows_and_what_the_journal_has(shown: Fallow) -> None:
    told = shown("why", "slurm:1234").stdout
    first, *rest = told.splitlines()
    assert first.startswith("slurm:1234")
    assert "(ada, gpu/vision) is idle for 45m: holds 2 GPUs, 2 idle" in first
    assert rest[:2] == ["  n1:0 idle: 0.0%", "  n1:1 idle: 0.0%"]
    assert "  rule idle gpus: is warned in 15m" in rest
    assert any("verdict: ada's Slurm job 1234: idle: idle for 45m" in line for line in rest)
    facts = json.loads(shown("why", "slurm:1234", "--json").stdout)
    assert (facts["subject"], facts["watched"], len(facts["jobs"][0]["uses"])) == ("slurm:1234", True, 2)
    assert facts["events"][0]["finding"] == "idle"


def test_why_a_node_says_why_no_job_can_begin_there(shown: Fallow) -> None:
    told = shown("why", "node:n3").stdout
    assert "node n3: 0 of 4 GPUs held, 0 of them idle; no job can begin there: drained: fan failed" in told
    gone = shown("why", "slurm:4711")
    assert gone.returncode == 1
    assert "slurm:4711 holds no GPU now" in gone.stderr
    assert "of an array ask about one task, as slurm:4711_1" in gone.stderr


def test_a_node_that_the_engine_does_not_list_is_not_protected(shown: Fallow) -> None:
    done = shown("protect", "node:zz", "--for", "1h")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no node zz with GPUs; fallow status --cluster lists them" in done.stderr
    assert shown("protect", "--list").stdout == "nothing is protected\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("slurm:1234",), 0, "slurm:1234: idle"),
        (("slurm:1234", "--for", "2h"), 1, "slurm:1234: not for 2h yet"),
        (("slurm:7",), 1, "slurm:7: in use"),
        (("slurm:4711",), 75, "cannot be told: holds no GPU now, or does not exist"),
        (("node:n3",), 0, "node:n3: idle: holds no GPU"),
        (("node:n3", "--for", "30m"), 75, "cannot be told: holds no GPU now; since when is not known"),
        (("node:n9",), 75, "cannot be told: holds no GPU now, or does not exist"),
        (("partition:other",), 75, "cannot be told: holds no GPU now, or does not exist"),
        (("node:n2",), 1, "slurm:7: in use"),
        (("slurm:1234", "--unless", "cpu:50"), 2, "--unless is about the processes of this machine"),
        (("slurm:x",), 2, "write it as slurm:1234"),
    ],
)
def test_idle_answers_by_its_exit_code(shown: Fallow, words: tuple[str, ...], code: int, said: str) -> None:
    done = shown("idle", *words)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


@pytest.mark.more
def test_what_is_old_or_unknown_is_never_called_idle(simulated: Fallow) -> None:
    with watching(simulated, "pods"):
        assert simulated("idle", "pod:ml/lost").returncode == 75
    with watching(simulated, "small 3600"):
        assert simulated("idle", "slurm:1234").returncode == 75
    assert simulated("idle", "slurm:1234").returncode == 69


@pytest.mark.more
def test_a_job_is_protected_by_its_key_and_the_protection_can_be_listed(simulated: Fallow) -> None:
    with watching(simulated, "small"):
        placed = simulated("protect", "deployment:ml/web", "--for", "1h", "--json")
        assert placed.returncode == 0, placed.stderr
        assert "holds no GPU now; the protection counts once it does" in placed.stderr
        (facts,) = json.loads(placed.stdout)["protections"]
        assert facts["subject"] == "kubernetes:Deployment/ml/web"
        assert simulated("protect", "slurm:90", "--for", "2h", "--why", "still needed").returncode == 0
        listed = simulated("protect", "--list").stdout
        assert "protects slurm:90" in listed
        assert "protects slurm:90" in simulated("why", "slurm:90").stdout


def test_while_slurm_is_silent_no_command_says_that_a_job_is_not_there(simulated: Fallow) -> None:
    with watching(simulated, "silent"):
        whole, one = simulated("status", "--cluster"), simulated("status", "--cluster", "slurm:1")
        idle, why = simulated("idle", "slurm:1"), simulated("why", "slurm:1")
        facts = json.loads(simulated("why", "slurm:1", "--json").stdout)
        placed = simulated("protect", "slurm:1", "--for", "1h")
    first, *_, last = whole.stdout.splitlines()
    assert first == "Slurm: what is available now is not known, what is held and idle is not known"
    assert last == "whether a job holds a GPU is not known"
    assert (one.returncode, one.stdout.splitlines()[-1]) == (0, "whether a job of slurm:1 holds a GPU is not known")
    assert (idle.returncode, idle.stdout) == (75, f"slurm:1: cannot be told: {SILENT}\n")
    assert "whether a job of slurm:1 holds a GPU is not known" in why.stdout
    assert (facts["jobs"], facts["unknown"]["jobs"]) == (None, SILENT)
    assert "whether slurm:1 holds a GPU now is not known" in placed.stderr


def test_a_cluster_that_does_not_answer_is_told_by_wake_with_what_to_set(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    done = simulated("wake", "deployment:ml/llama")
    assert (done.returncode, done.stdout) == (125, "")
    assert "set KUBECONFIG" in done.stderr
    file = tmp_path / "kubeconfig"
    file.write_text("foo\n")
    named = simulated("wake", "--list", KUBECONFIG=str(file))
    assert (named.returncode, named.stdout) == (125, "")
    assert "the kubeconfig is none: it has no clusters, users and contexts" in named.stderr
    assert "does kubectl reach it? try: kubectl get nodes" in named.stderr


def test_stop_takes_single_jobs_and_asks_first(shown: Fallow) -> None:
    assert "is not one job" in shown("stop", "node:n1", "--yes").stderr
    assert "stop each alone" in shown("stop", "slurm:1", "3", "--yes").stderr
    assert "stop each alone" in shown("stop", "slurm:1", "deployment:a/b", "--yes").stderr
    asked = shown("stop", "slurm:1234")
    assert asked.returncode == 2
    assert "there is no terminal to ask on" in asked.stderr
