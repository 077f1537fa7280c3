"""The cluster on the page, in the API and in the metrics: bounded, escaped, and silent where nothing is known."""

import pathlib
import time
from collections.abc import Iterator

import pytest

from fallow.core.cluster import ClusterBoard
from fallow.core.cluster_view import cluster_view
from fallow.core.value import replace
from fallow.core.visibility import ANYBODY
from fallow.engine.client.from_json import cluster
from fallow.interfaces.render.cluster_json import cluster as as_facts
from fallow.interfaces.render.metrics import exposed
from tests.interfaces.web.boards import varied
from tests.interfaces.web.clusters import (
    fell_silent,
    filled,
    large,
    pods,
    silent,
    slurm_job,
    small,
    unread,
)
from tests.interfaces.web.served import Site, hall, served
from tests.interfaces.web.test_api import HOSTILE


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(hall(varied), tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.parametrize(
    "board",
    [
        *(small(), pods(), silent(), fell_silent(), filled()),
    ],
)
def test_the_json_read_back_is_the_same_view(board: ClusterBoard) -> None:
    view = cluster_view(board, ANYBODY)
    again = cluster(as_facts(view))
    assert as_facts(again) == as_facts(view)


def test_the_api_tells_the_cluster_and_a_stranger_no_name(site: Site) -> None:
    facts = site.ask("/api/v1/cluster").json
    assert (facts["version"], facts["engine"], facts["total_gpus"]) == (1, "slurm", 12)
    assert [job["name"] for job in facts["jobs"]] == [None] * 4
    assert site.ask("/api/v1/cluster?limit=1").json["more_jobs"] == 3
    assert [job["key"] for job in site.ask("/api/v1/cluster?subject=user:bob").json["jobs"]] == ["slurm:7"]
    for subject in ("slurm:x", "gpu:3", "nothing"):
        answer = site.ask(f"/api/v1/cluster?subject={subject}")
        assert (answer.status, answer.json["reason"]) == (422, "usage")


def test_without_a_cluster_the_api_says_so_and_the_page_has_no_section(tmp_path: pathlib.Path) -> None:
    with served(hall(lambda now_s: replace(varied(now_s), cluster=None)), tmp_path) as bare:
        answer = bare.ask("/api/v1/cluster")
        assert (answer.status, answer.json["reason"]) == (404, "cluster")
        assert 'id="cluster"' not in bare.ask("/").text
        assert "fallow_cluster" not in bare.ask("/metrics").text


def test_the_page_shows_the_most_wasteful_jobs_first_and_each_node(site: Site) -> None:
    page = site.ask("/").text
    part = page[page.index('id="cluster"') :]
    assert part.index("slurm:1234") < part.index("slurm:90") < part.index("slurm:7")
    assert "1 of 12 GPUs free, 4 held and idle in 2 jobs" in part
    assert "drained: fan failed" in part


def test_more_jobs_than_the_page_shows_are_told_as_a_number_and_as_500_series(tmp_path: pathlib.Path) -> None:
    many = replace(varied(time.time()), cluster=large(1000))
    with served(hall(lambda _: many), tmp_path) as crowded:
        assert "and 950 more jobs" in crowded.ask("/").text
        text = crowded.ask("/metrics").text
    assert text.count("\nfallow_cluster_idle_gpus{") == 501
    idle = sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("fallow_cluster_idle_gpus{"))
    assert f'fallow_cluster_gpus{{engine="slurm",state="idle"}} {idle}' in text, "nothing is left out of the sum"


def test_names_that_others_chose_are_no_markup_and_move_no_cursor(tmp_path: pathlib.Path) -> None:
    nasty = slurm_job(1, HOSTILE, small().jobs[0].job.places, 1, name=HOSTILE, labels={"partition": HOSTILE})  # type: ignore[arg-type]
    board = replace(varied(time.time()), cluster=small(jobs=(nasty,), troubles=(HOSTILE,)), commands_shown=True)
    with served(hall(lambda _: board), tmp_path) as hostile:
        page = hostile.ask("/").text
        assert hostile.ask("/api/v1/cluster").status == 200
        assert hostile.ask("/metrics").status == 200
    assert "<script>alert" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize("board", [silent(), unread()])
def test_what_is_idle_has_no_number_in_metrics_and_page_while_it_is_not_known(
    board: ClusterBoard, tmp_path: pathlib.Path
) -> None:
    whole = replace(varied(time.time()), cluster=board)
    text = exposed(whole, 0, "")[0].decode()
    samples = [line for line in text.splitlines() if line.startswith("fallow_cluster_")]
    assert not any("fallow_cluster_idle_gpus" in line for line in samples)
    assert not any('"idle"' in line or '"busy"' in line for line in samples)
    with served(hall(lambda _: whole), tmp_path) as site:
        page = site.ask("/").text
        facts = site.ask("/api/v1/cluster").json
    part = page[page.index('id="cluster"') :]
    assert "what is held and idle is not known" in part
    assert "No job holds a GPU" not in part
    assert 'class="busy"' not in part[: part.index("</section>")]
    assert (facts["idle_gpus"], facts["busy_gpus"], facts["unknown"]["idle_gpus"]) == (None, None, board.troubles[0])


def test_background_jobs_are_told_as_available_and_not_as_idle_in_metrics() -> None:
    whole = replace(varied(time.time()), cluster=filled())
    text = exposed(whole, 0, "")[0].decode()
    assert 'fallow_cluster_gpus{engine="slurm",state="filled"} 2.0' in text
    assert 'fallow_cluster_jobs{activity="filled",engine="slurm"} 3.0' in text
    assert 'fallow_cluster_jobs{activity="idle",engine="slurm"} 1.0' in text
    assert (
        'fallow_cluster_gpu_seconds_total{account="",namespace="",partition="scavenger",qos="",state="filled",'
        'user="games"} 90.0' in text
    )
    assert 'fallow_cluster_node_gpu_seconds_total{node="n1",state="free"} 60.0' in text
    assert not any("games" in line for line in text.splitlines() if line.startswith("fallow_cluster_idle_gpus"))


def test_what_could_not_be_read_is_counted_and_has_no_zero() -> None:
    board = replace(varied(1000.0), cluster=small(engine_answers=False, troubles=("the controller does not answer",)))
    text = exposed(board, 0, "")[0].decode()
    assert 'fallow_cluster_troubles{engine="slurm"} 1.0' in text
    assert 'fallow_cluster_source_up{engine="slurm",source="engine"} 0.0' in text
    assert 'fallow_cluster_source_up{engine="slurm",source="metrics"} 1.0' in text
    assert 'fallow_cluster_gpus{engine="slurm",state="free"}' not in text
    assert "fallow_cluster_nodes_out{" not in text
