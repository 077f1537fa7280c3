"""The GPUs of a job are kept free while it is woken: with a claim, or it is not woken."""

import os
import pathlib

import pytest

from fallow.actuators.claims.claims import FILLER, Held, take
from fallow.core.errors import FallowError
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.reservations import Claim, Note
from fallow.engine.machine.claims_seen import claim_of
from fallow.engine.machine.world import World
from fallow.engine.park.place import kept_free
from tests.harness import ManualClock

ME = Process(os.getpid(), 1)
JOB = ParkedJob(ME, (ME,), "eve", "job 1 (python)", (("GPU-1", 1),), 0.0)


def test_without_the_claim_a_job_is_not_woken(tmp_path: pathlib.Path) -> None:
    environ = {"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_STATE_DIR": str(tmp_path / "state")}
    world = World(environ, clock=ManualClock())
    others = take(world.folder, "GPU-1", Note(os.getpid(), program="train"))
    assert others is not None
    with pytest.raises(FallowError, match="somebody has claimed it"), kept_free(world, JOB):
        pytest.fail("it went on without the claim")
    others.end()
    with kept_free(world, JOB):
        assert isinstance(claim_of(world, "GPU-1"), Claim)
    assert claim_of(world, "GPU-1") is None


class FillerLeaves(ManualClock):
    """A clock by which a filler leaves some seconds after it is looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.filler: Held | None = None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.filler is not None and self.now_s >= 1005.0:
            self.filler.end()
            self.filler = None


def test_a_job_is_woken_once_the_filler_has_left(tmp_path: pathlib.Path) -> None:
    clock = FillerLeaves()
    world = World({"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_STATE_DIR": str(tmp_path)}, clock=clock)
    clock.filler = take(world.folder, "GPU-1", Note(os.getpid(), program="sweep"), FILLER)
    assert clock.filler is not None
    with kept_free(world, JOB):
        assert clock.filler is None
    assert 1005.0 <= clock.now_s < 1010.0
