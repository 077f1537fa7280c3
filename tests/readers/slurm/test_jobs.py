"""What scontrol prints of jobs is read; what users wrote there forges nothing."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fallow.core.cluster import NodeGpu
from fallow.core.unknown import Unknown
from fallow.readers.slurm.jobs import JobDetails, details, details_of
from tests.readers.slurm.printed import job_line


def only(text: str, number: int = 7) -> JobDetails:
    found = details(text, {number})[number]
    assert isinstance(found, JobDetails), found
    return found


def test_a_job_is_its_gpus_user_and_start() -> None:
    job = only(job_line(account="phys acct"))
    assert job.gpus == (NodeGpu("n1", 0), NodeGpu("n1", 1))
    assert (job.id, job.user, job.uid, job.name, job.account) == ("7", "games", 5, "train", "phys acct")
    assert (job.start_wall_s, job.partition, job.qos, job.interactive) == (1794822104.0, "normal", "", False)


def test_a_job_without_a_batch_script_has_a_person_before_it() -> None:
    assert only(job_line(batch=0)).interactive


def test_a_field_within_another_word_is_none_of_slurm() -> None:
    assert only(job_line(name="myUserId=3", comment="my-StartTime=1")).name == "myUserId=3"


def test_a_group_may_have_spaces_in_its_name() -> None:
    assert only(job_line().replace("GroupId=games(60)", "GroupId=domain users(60)")).user == "games"


@pytest.mark.parametrize(
    ("nodes", "gpus"),
    [
        ("   Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)", "n1:0 n1:1 n2:0 n2:1"),
        ("   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)   Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)", "n1:3 n2:0"),
        ("   Nodes=n1 CPU_IDs=0-3,8 Mem=4 GRES=gpu:a100:2(IDX:0,3)", "n1:0 n1:3"),
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
    part = only(job_line(head=" HetJobId=6 HetJobOffset=1", name="wrap HetJobIdSet=6-7"))
    assert (part.id, part.leader, part.name) == ("6+1", 6, "wrap")


FORGED = "x UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 Nice=0 Account=a QOS=b JobState=RUNNING Reason="


@pytest.mark.parametrize(
    "text",
    [
        FORGED,
        "x BatchFlag=0 ",
        "x StartTime=1 EndTime=2",
        "x\tPartition=other AllocNode:Sid=",
        "x Nodes=n9 CPU_IDs=0 Mem=0 GRES=gpu:4(IDX:0-3) ",
    ],
)
def test_a_name_or_a_comment_that_reads_like_a_field_makes_the_job_unknown(text: str) -> None:
    for line in (job_line(name=text), job_line(comment=text), job_line(account=text)):
        assert isinstance(details(line, {7})[7], Unknown), line
        assert isinstance(details_of(line, 7), Unknown), line


@pytest.mark.parametrize("name", ["a b", "a=b c=d", "JobId=1", "x JobId=1 y", "ü\x1b[2J", "x\nJobName=y", ""])
def test_other_names_are_names(name: str) -> None:
    assert only(job_line(name=name)).name == name


def test_a_name_that_forges_another_job_neither_makes_nor_changes_one() -> None:
    victim = job_line(5, user="news(9)", nodes="   Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)")
    forged = job_line(5, user="news(9)", nodes="   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)")
    for text in (victim + job_line(name=f"x\n{forged}y"), job_line(name=f"x\n{forged}y") + victim):
        found = details(text, {5, 7})
        assert isinstance(found[5], Unknown)
        assert isinstance(found[7], Unknown)
    assert details_of(victim, 5) == only(victim, 5)


@pytest.mark.parametrize("other", [99, 6, 8])
def test_a_name_that_ends_its_own_line_with_forged_gpus_is_found_out(other: int) -> None:
    """The first half would be a whole line of the job itself, with GPUs that others keep busy."""
    whole = job_line(nodes="   Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)").partition("JobName=")[2]
    text = job_line(6) + job_line(name=f"{whole}JobId={other} JobName=y") + job_line(8) + job_line(9)
    found = details(text, {6, 7, 8, 9})
    assert isinstance(found[7], Unknown)
    assert isinstance(found[9], JobDetails)
    assert [number for number in (6, 8) if isinstance(found[number], Unknown)] == [other] * (other != 99)
    assert isinstance(details_of(job_line(name=f"{whole}JobId={other} JobName=y"), 7), Unknown)


@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_of_a_user_changes_what_is_believed_of_a_job(name: str, comment: str) -> None:
    found = details(job_line(name=name, comment=comment), {7}).get(7)
    if isinstance(found, JobDetails):
        assert (found.user, found.gpus) == ("games", (NodeGpu("n1", 0), NodeGpu("n1", 1)))


@given(st.text(alphabet="JobId=789 \nUserNm()SatGREX:gpu[]-,", max_size=300))
def test_no_answer_raises(text: str) -> None:
    details(text, {7, 8, 9})
    details_of(text, 7)


def test_4000_jobs_are_read_fast() -> None:
    text = "".join(job_line(number) for number in range(4000))
    began = time.process_time()
    found = details(text, range(4000))
    assert len(found) == 4000
    assert time.process_time() - began < 2


def test_a_long_hostile_name_takes_no_longer_than_its_length() -> None:
    began = time.process_time()
    for text in (" UserId=" * 20_000, "UserId=a(1) GroupId=" * 20_000, "\nJobId=1 JobName=" * 20_000, " " * 200_000):
        details(job_line(name=text), {7})
        details_of(job_line(comment=text), 7)
    assert time.process_time() - began < 5
