"""The GPUs of a job are kept free while it is woken: with a claim only, and for a server not for long."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from fallow.actuators.claims.claims import FILLER_BYTE, take
from fallow.actuators.claims.fill_marks import mark_filled
from fallow.core.errors import FallowError
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.reservations import Claim
from fallow.core.value import replace
from fallow.engine.machine.claim_holders import claim_of
from fallow.engine.machine.world import World
from fallow.engine.park.place import kept_free
from tests.engine.driven import DrivenClock
from tests.places import LIMIT_S, REPOSITORY
from tests.waiting import until

pytestmark = pytest.mark.more

ME = Process(os.getpid(), 1)
JOB = ParkedJob(ME, (ME,), "eve", "job 1 (vllm)", (("GPU-1", 1),), 0.0)


@pytest.fixture
def environ(tmp_path: pathlib.Path) -> dict[str, str]:
    return {"FALLOW_CLAIM_DIR": str(tmp_path / "claims"), "FALLOW_STATE_DIR": str(tmp_path / "state")}


def test_the_gpus_of_a_server_are_claimed_for_a_short_time_only(environ: dict[str, str]) -> None:
    world = World(environ)
    with kept_free(world, JOB):
        assert isinstance(claim_of(world, "GPU-1"), Claim)
    assert claim_of(world, "GPU-1") is None
    with kept_free(world, JOB, 0.1):
        until(lambda: claim_of(world, "GPU-1"), lambda claim: claim is None)


def test_without_the_claim_a_job_is_not_woken(environ: dict[str, str]) -> None:
    world = World(environ, clock=DrivenClock())
    others = take(world.folder, "GPU-1", Claim(False, os.getpid(), "vic", "train", 0.0))
    assert others is not None
    with pytest.raises(FallowError, match="somebody has claimed it"), kept_free(world, JOB):
        pytest.fail("it went on without the claim")
    others.end()
    with kept_free(world, JOB):
        pass


class WatchedClock(DrivenClock):
    """Says what is so whenever somebody waits."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self.seen: list[object] = []
        self._look = look

    def sleep(self, seconds: float) -> None:
        self.seen.append(self._look())
        super().sleep(seconds)


def test_while_one_gpu_is_waited_for_no_other_is_kept_from_anybody(environ: dict[str, str]) -> None:
    world = World(environ)
    others = take(world.folder, "GPU-2", Claim(False, os.getpid(), "vic", "train", 0.0))
    assert others is not None
    clock = WatchedClock(lambda: claim_of(world, "GPU-1"))
    job = replace(JOB, gpus=(("GPU-1", 1), ("GPU-2", 1)))
    with pytest.raises(FallowError), kept_free(World(environ, clock=clock), job, 10.0):
        pytest.fail("it went on without the claim")
    assert set(clock.seen) == {None}
    others.end()


def test_a_filler_is_waited_for_no_longer_than_the_gpus_are_kept_free(environ: dict[str, str]) -> None:
    clock = DrivenClock()
    world = World(environ, clock=clock)
    mark = mark_filled(world.folder, "GPU-1", Claim(False, os.getpid(), command="burn"))
    assert mark is not None
    with kept_free(world, JOB, 10.0):
        assert 1009 < clock.now_s < 1011
    with kept_free(world, JOB):
        assert 1069 < clock.now_s < 1072
    mark.close()


@pytest.mark.as_root
def test_a_false_mark_of_a_filler_keeps_nobody_waiting(environ: dict[str, str], tmp_path: pathlib.Path) -> None:
    clock = DrivenClock()
    world = World(environ, clock=clock)
    with kept_free(world, JOB):
        pass
    (tmp_path / "claims").chmod(0o1777)
    for above in (tmp_path, *tmp_path.parents[:2]):
        above.chmod(above.stat().st_mode | 0o055)
    words = [sys.executable, "-m", "tests.actuators.claims.neighbour", "61003", "lock"]
    path = str(tmp_path / "claims" / "GPU-1")
    with subprocess.Popen(
        [*words, path, str(FILLER_BYTE), "1", "ofd"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as eve:
        assert eve.stdout is not None
        assert eve.stdout.readline() == "done\n"
        began_s = clock.now_s
        with kept_free(world, JOB):
            assert clock.now_s - began_s < 1
        eve.communicate("", timeout=LIMIT_S)
