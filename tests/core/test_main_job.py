"""The one job of a GPU that there is room for: one that works, or has most memory, and how many others there are."""

from typing import Any

import pytest

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Holder
from fallow.core.gpu_status import GpuStatus, seen
from fallow.core.main_job import MainJob, main_job
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.unknown import Unknown
from fallow.core.value import replace
from tests.core.gpus import GIB, idle

LOST = Reason("trouble", trouble="the GPU is lost")
CONTAINER = Owner(OwnerKind.CONTAINER, "c1", "vllm-prod")


def holder(pid: int, gib: float | None, command: str = "python3 train.py", owner: Owner = NO_OWNER) -> Holder:
    memory = Unknown("not told") if gib is None else int(gib * GIB)
    return Holder(pid, memory, user=f"user{pid}", command=command, owner=owner)


def gpu(*holders: Holder, activity: Activity = Activity.BUSY, claim: Claim | None = None, **more: Any) -> GpuStatus:
    return seen(idle(holders=holders), Finding(activity, LOST), 1.0, claim, **more)


def test_of_several_jobs_the_one_with_most_memory_is_shown_and_the_others_are_counted() -> None:
    found = main_job(gpu(holder(1, 2), holder(2, None), holder(3, 40, "/opt/venv/bin/python -u train.py")))
    assert found == MainJob("user3", "python -u train.py", 3, 2)


def test_of_several_jobs_the_one_that_works_is_shown_however_much_memory_another_holds() -> None:
    works = replace(holder(2, 1), utilization=0.4)
    assert main_job(gpu(holder(1, 2), works, replace(holder(3, 40), utilization=0.0))) == MainJob(
        "user2", "python3 train.py", 2, 2
    )


def test_the_processes_of_one_owner_are_one_job_and_its_memory_counts_together() -> None:
    found = main_job(gpu(holder(1, 30), holder(2, 20, owner=CONTAINER), holder(3, 21, owner=CONTAINER)))
    assert found == MainJob("user3", "container vllm-prod", 3, 1)


def test_a_session_is_no_name_for_a_job() -> None:
    found = main_job(gpu(holder(1, 30, owner=Owner(OwnerKind.TMUX, "7", "7"))))
    assert found is not None
    assert found.what == "python3 train.py"


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("/opt/venv/bin/python -u train.py --lr 1", "train.py --lr 1"),
        ("python3.11 -m torch.distributed.run ddp.py", "torch.distributed.run ddp.py"),
        ("python3 -c print(1)", "python3 -c print(1)"),
        ("python3", "python3"),
        ("pythonic train.py", "pythonic train.py"),
    ],
)
def test_where_there_is_little_room_a_job_is_called_by_its_script(command: str, script: str) -> None:
    found = main_job(gpu(holder(1, 2, command)))
    assert found is not None
    assert found.script == script


def test_a_job_of_which_only_the_program_can_be_read_is_named_with_its_pid() -> None:
    names = [
        found.named for command in ("python3", "python3 a.py") if (found := main_job(gpu(holder(7, 2, command))))
    ]
    assert names == ["python3 pid 7", "python3 a.py"]


def test_a_filler_and_a_claim_are_shown_where_nobody_else_is() -> None:
    claim = Claim(False, 7, "bob", "sh")
    assert main_job(gpu(claim=claim)) == MainJob("bob", "claimed: sh", 7)
    assert main_job(gpu(activity=Activity.FILLED, filler=claim)) == MainJob("bob", "filler: sh", 7)
    both = main_job(gpu(holder(1, 1), filler=claim))
    assert both is not None
    assert (both.user, both.more) == ("user1", 1)


def test_a_claim_of_nobody_knows_whom_has_an_unknown_user() -> None:
    found = main_job(gpu(claim=Claim(False)))
    assert found is not None
    assert isinstance(found.user, Unknown)
    assert "not seen here" in found.what


def test_who_is_on_a_lost_gpu_is_unknown_and_why_takes_the_place_of_the_job() -> None:
    found = main_job(gpu(activity=Activity.UNKNOWN))
    assert found is not None
    assert isinstance(found.user, Unknown)
    assert "lost" in found.what
    assert main_job(gpu(activity=Activity.FREE)) is None
