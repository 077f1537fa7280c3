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
    assert [row.split()[0] for row in rows if row.startswith("slurm:")] == [
        "slurm:1234",
        "slurm:90",
        "slurm:7",
        "slurm:91",
    ]
    assert "is warned in 15m" in " ".join(done.stdout.split())
    assert rows[-1] == "node n3: drained: fan failed"
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_json_is_that_of_the_api_and_has_no_name_that_others_gave(shown: Fallow) -> None:
    facts = json.loads(shown("status", "--cluster", "--json").stdout)
    assert (facts["engine"], facts["free_gpus"], facts["idle_gpus"], facts["pending_gpus"]) == ("slurm", 1, 4, 6)
    assert [job["idle_gpus"] for job in facts["jobs"]] == [2, 2, 0, 0]
    assert facts["jobs"][0]["labels"] == {"partition": "gpu", "account": "vision"}
    if facts["jobs"][0]["name"] is None:  # unless root asks
        assert facts["jobs"][0]["unknown"]["name"] == "only its user and root may read it"


def test_one_job_tells_what_each_gpu_did_and_the_whole_stays_the_whole(shown: Fallow) -> None:
    facts = json.loads(shown("status", "--cluster", "slurm:90", "--json").stdout)
    assert [use["place"] for job in facts["jobs"] for use in job["uses"]] == ["n1:2", "n1:3", "n2:1"]
    assert (facts["free_gpus"], facts["idle_gpus"]) == (1, 4)


@pytest.mark.parametrize(("subject", "count"), [("node:n2", 3), ("partition:gpu", 4), ("user:bob", 1), ("mine", 0)])
def test_a_subject_shows_only_its_jobs(shown: Fallow, subject: str, count: int) -> None:
    assert len(json.loads(shown("status", "--cluster", subject, "--json").stdout)["jobs"]) == count


def test_what_is_not_there_or_mistyped_is_told(shown: Fallow) -> None:
    gone = shown("status", "--cluster", "slurm:4711")
    assert (gone.returncode, gone.stdout) == (1, "")
    assert "slurm:4711 holds no GPU now" in gone.stderr
    assert shown("status", "--cluster", "node:n9").returncode == 1
    typo = shown("status", "--cluster", "slrum:1234")
    assert typo.returncode == 2
    assert "did you mean slurm" in typo.stderr
    assert shown("status", "--cluster", "3").returncode == 2
    for other in (("--idle",), ("--sort", "idle"), ("-l",)):
        assert shown("status", "--cluster", *other).returncode == 2


def test_my_jobs_are_those_of_who_asks(shown: Fallow) -> None:
    done = shown("status", "--cluster", "--mine")
    assert done.returncode == 0
    assert "holds a GPU" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("slurm:1234", "4 held and idle (2 in 1 job of slurm:1234), "),
        ("partition:gpu", "4 held and idle (4 in 2 jobs of partition:gpu), "),
        ("user:bob", "4 held and idle, "),
    ],
)
def test_the_idle_gpus_of_the_whole_are_not_said_to_be_in_the_jobs_that_were_asked_for(
    shown: Fallow, subject: str, said: str
) -> None:
    first = shown("status", "--cluster", subject).stdout.splitlines()[0]
    assert first == f"Slurm: 1 of 12 GPUs free, {said}6 waited for"


def test_kubernetes_is_not_said_to_run_nothing_of_somebody_since_it_knows_no_users(simulated: Fallow) -> None:
    with watching(simulated, "pods"):
        told = simulated("status", "--cluster", "--mine").stdout.splitlines()[-1]
    assert told == "Kubernetes does not say whose its jobs are; ask for a namespace: namespace:NAME"


def test_an_old_look_and_a_missing_name_are_said(simulated: Fallow) -> None:
    with watching(simulated, "pods 1800"):
        told = simulated("status", "--cluster").stdout
    assert "looked 30m ago, which is long ago" in told
    assert "deployment:ml/web" in told


def test_without_a_cluster_and_without_a_daemon_it_says_which(simulated: Fallow) -> None:
    alone = simulated("status", "--cluster")
    assert alone.returncode == 69
    assert "no `fallow up` runs on this machine" in alone.stderr
    with watching(simulated, ""):
        none = simulated("status", "--cluster")
    assert none.returncode == 69
    assert "[cluster]" in none.stderr
