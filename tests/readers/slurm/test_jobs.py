"""What scontrol prints of jobs is read; what is broken or doubtful is unknown."""

import pytest

from fallow.core.cluster import NodeGpu
from fallow.core.unknown import Unknown
from fallow.readers.slurm.jobs import JobDetails, details
from tests.readers.slurm.printed import job_line


def only(text: str, number: int = 7) -> JobDetails:
    found = details(text)[number]
    assert isinstance(found, JobDetails), found
    return found


def test_a_job_is_its_gpus_user_and_start() -> None:
    job = only(job_line(name="a b=c", account="phys acct") + job_line(8, batch=0))
    assert job.gpus == (NodeGpu("n1", 0), NodeGpu("n1", 1))
    assert (job.id, job.user, job.uid, job.name, job.account) == ("7", "games", 5, "a b=c", "phys acct")
    assert (job.start_wall_s, job.partition, job.qos, job.interactive) == (1794822104.0, "normal", "", False)
    assert only(job_line(batch=0)).interactive, "without a batch script a person is before it"


@pytest.mark.parametrize(
    ("nodes", "gpus"),
    [
        ("   Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)", "n1:0 n1:1 n2:0 n2:1"),
        ("   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)   Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)", "n1:3 n2:0"),
        ("   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:0),gpu:v100:1(IDX:2),mps:50(IDX:1)", "n1:0 n1:2"),
        ("   Nodes=n1 CPU_IDs=0 Mem=0 GRES=", ""),
    ],
)
def test_the_gpus_of_all_nodes_are_found(nodes: str, gpus: str) -> None:
    found = only(job_line(nodes=nodes)).gpus
    assert isinstance(found, tuple)
    assert " ".join(map(str, found)) == gpus


@pytest.mark.parametrize("gres", ["gpu:2", "gpu:2(IDX:N/A)", "gpu:2(IDX:0)", "gpu:2(IDX:1-0)", "gpu:2(IDX:0,0)"])
def test_gpus_that_slurm_does_not_name_are_unknown(gres: str) -> None:
    assert isinstance(only(job_line(nodes=f"   Nodes=n1 CPU_IDs=0 Mem=0 GRES={gres}")).gpus, Unknown)


def test_a_task_of_an_array_and_a_part_of_a_heterogeneous_job_have_their_own_ids() -> None:
    assert only(job_line(head=" ArrayJobId=3 ArrayTaskId=1")).id == "3_1"
    assert only(job_line(head=" HetJobId=6 HetJobOffset=1", name="wrap HetJobIdSet=6-7")).id == "6+1"


def test_a_line_that_is_cut_is_unknown_and_one_that_is_no_job_is_none() -> None:
    assert isinstance(details(job_line().partition(" BatchFlag=")[0])[7], Unknown)
    assert details("slurm_load_jobs error: Unable to contact slurm controller\n") == {}


def test_a_name_that_reads_like_the_line_of_another_job_makes_that_job_unknown() -> None:
    forged = job_line(5, user="news(9)", nodes="   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)")
    found = details(job_line(5, user="news(9)") + job_line(name=f"x\n{forged}y") + job_line(8))
    assert isinstance(found[5], Unknown)
    assert isinstance(found[7], Unknown)
    assert isinstance(found[8], JobDetails)
