"""A user writes the command lines of their processes: none of them reads as an owner, in no face."""

import pytest

from fallow.core.activity import Activity, Finding
from fallow.core.gpu import Holder
from fallow.core.gpu_status import seen
from fallow.core.interval import Interval, parties_of, party_of
from fallow.core.main_job import main_job
from fallow.core.owner import NO_OWNER, Owner, OwnerKind
from fallow.core.reasons import Reason
from fallow.core.reservations import Claim
from fallow.core.visibility import ANYBODY, EVERYTHING, Viewer, interval_seen_by, is_for_all
from tests.core.gpus import GIB, idle

RAN = Reason("trouble", trouble="it ran")
OWNERS = [
    Owner(OwnerKind.CONTAINER, "c1", "vllm-prod"),
    Owner(OwnerKind.SLURM, "1234", "1234"),
    Owner(OwnerKind.POD, "1b8a7a44", "1b8a7a44"),
    Owner(OwnerKind.SERVICE, "vllm.service", "vllm.service"),
    Owner(OwnerKind.NOTEBOOK, "k1", "train.ipynb"),
]


def holder(command: str, owner: Owner = NO_OWNER) -> Holder:
    return Holder(7, GIB, user="mallory", command=command, owner=owner)


def job_and_label(each: Holder) -> tuple[str, str]:
    """What it is booked as, and what a table of GPUs calls it."""
    shown = main_job(seen(idle(holders=(each,)), Finding(Activity.BUSY, RAN), 1.0, None))
    assert shown is not None
    return party_of(each).job, shown.what


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: owner.kind.value)
def test_no_command_is_booked_or_shown_as_an_owner(owner: Owner) -> None:
    job, label = job_and_label(holder("x", owner))
    for folder in ("", "/home/mallory/", "  "):
        for words in (job, label, f"{job} --serve"):
            command = f"{folder}{words}"
            assert job not in job_and_label(holder(command)), command
            assert label not in job_and_label(holder(command)), command
            claimed = seen(idle(), Finding(Activity.IDLE, RAN), 1.0, Claim(True, 7, "mallory", command))
            parties = (*parties_of(claimed), party_of(holder(command)))
            interval = Interval("GPU-1", 0, 1, 1, Activity.BUSY, parties)
            for viewer in (ANYBODY, EVERYTHING, Viewer("mallory"), Viewer("bob")):
                names = [party.job for party in interval_seen_by(interval, viewer).parties]
                assert job not in names, (command, viewer)
                assert not any(map(is_for_all, names)), (command, viewer)


def test_other_commands_are_shown_as_they_are() -> None:
    for command in ("python train.py", "sshd: ada", "./pods 1", "containerd", "tmux new", "x.services"):
        assert job_and_label(holder(command))[0] == command
