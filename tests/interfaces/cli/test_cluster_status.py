"""`fallow status --cluster`: what is available, what is wasted, and what it says where nothing can be told."""

import json
from collections.abc import Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.clustered import watching, watching_alone


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fallow]:
    with watching_alone(tmp_path_factory) as fallow:
        yield fallow


def test_the_first_line_says_what_can_be_had_and_what_is_wasted(shown: Fallow) -> None:
    done = shown("status", "--cluster", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    first, second, head, *rows = done.stdout.splitlines()
    assert first == "Slurm: 1 of 12 GPUs free, 4 held and idle in 2 jobs, 6 waited for"
    assert second.startswith("2 busy, 1 unknown, 4 out of service; rules act; looked ")
    assert head.split()[:4] == ["job", "user", "where", "idle"]
    jobs = ["slurm:1234", "slurm:90", "slurm:7", "slurm:91"]
    assert [row.split()[0] for row in rows if row.startswith("slurm:")] == jobs
    assert "is warned in 15m" in " ".join(done.stdout.split())
    assert rows[-1] == "node n3: drained: fan failed"
    assert max(map(len, done.stdout.splitlines())) <= 80
    part = shown("status", "--cluster", "slurm:1234").stdout.splitlines()[0]
    assert part == "Slurm: 1 of 12 GPUs free, 4 held and idle (2 in 1 job of slurm:1234), 6 waited for"


def test_the_json_of_one_job_tells_what_each_gpu_did_and_the_whole_stays_the_whole(shown: Fallow) -> None:
    facts = json.loads(shown("status", "--cluster", "slurm:90", "--json").stdout)
    (job,) = facts["jobs"]
    assert [use["place"] for use in job["uses"]] == ["n1:2", "n1:3", "n2:1"]
    assert job["labels"] == {"partition": "gpu", "account": "vision"}
    assert (facts["free_gpus"], facts["idle_gpus"], facts["pending_gpus"]) == (1, 4, 6)
    if job["name"] is None:  # unless root asks
        assert job["unknown"]["name"] == "only its user and root may read it"


@pytest.mark.parametrize(("subject", "count"), [("node:n2", 3), ("user:bob", 1), ("mine", 0)])
def test_a_subject_shows_only_its_jobs(shown: Fallow, subject: str, count: int) -> None:
    assert len(json.loads(shown("status", "--cluster", subject, "--json").stdout)["jobs"]) == count


def test_what_is_not_there_or_mistyped_is_told(shown: Fallow) -> None:
    gone = shown("status", "--cluster", "slurm:4711")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "slurm:4711 holds no GPU now" in gone.stderr
    assert shown("status", "--cluster", "node:n9").returncode == 1
    typo = shown("status", "--cluster", "slrum:1234")
    assert (typo.returncode, "did you mean slurm" in typo.stderr) == (2, True)


def test_an_old_look_is_said_and_kubernetes_is_not_said_to_run_nothing_of_somebody(simulated: Fallow) -> None:
    with watching(simulated, "pods 1800"):
        told = simulated("status", "--cluster").stdout
        mine = simulated("status", "--cluster", "--mine").stdout.splitlines()[-1]
    assert "looked 30m ago, which is long ago" in told
    assert "deployment:ml/web" in told
    assert mine == "Kubernetes does not say whose its jobs are; ask for a namespace: namespace:NAME"


def test_without_a_cluster_and_without_a_daemon_it_says_which(simulated: Fallow) -> None:
    alone = simulated("status", "--cluster")
    assert (alone.returncode, "no `fallow up` runs on this machine" in alone.stderr) == (69, True)
    with watching(simulated, ""):
        none = simulated("status", "--cluster")
    assert (none.returncode, "[cluster]" in none.stderr) == (69, True)
