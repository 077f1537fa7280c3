"""A server that says that it sleeps is called parked only while the driver lists that its memory is gone."""

import os
import pathlib

import pytest

from fallow.core.gpu import Gpu, Snapshot
from fallow.core.job import GpuKey, Job
from fallow.core.parked import ParkedJob, ParkWay
from fallow.core.process import Process
from fallow.core.unknown import Unknown
from fallow.engine.history.run import open_run
from fallow.engine.machine.world import World
from fallow.engine.owners.known import KnownOwners
from fallow.engine.park.parking import Parking
from fallow.engine.park.record import ParkRecord
from fallow.readers.proc import Proc
from tests.core.gpus import GIB, held, idle

UUID = str(idle().uuid)


@pytest.fixture
def me() -> Process:
    stat = Proc().stat(os.getpid())
    assert stat is not None
    return Process(stat.pid, stat.birth)


def looked_at(gpu: Gpu) -> Snapshot:
    return Snapshot("here", False, 0.0, 0.0, (gpu,))


def is_left_alone(tmp_path: pathlib.Path, me: Process, gpu: Gpu, looks: int = 5) -> tuple[bool, str | None]:
    """Return whether a vLLM with 20 GiB that said that it sleeps is judged by no rule, and why it is not parked."""
    world = World({"FALLOW_STATE_DIR": str(tmp_path / "state"), "FALLOW_CLAIM_DIR": str(tmp_path / "claims")})
    ParkRecord(world).write(
        [
            ParkedJob(
                *(me, (me,), "eve", "job 1 (vllm)", ((UUID, 20 * GIB),), 0.0, ParkWay.VLLM),
                holders=(me,),
                server=me,
                port=1,
                server_uid=os.getuid(),
            )
        ]
    )
    job = Job(me, "eve", {me: ""}, (GpuKey("0", UUID),), frozenset())
    with open_run(world, lambda _: None) as run:
        parking = Parking(run, KnownOwners(world, run.say))
        for _ in range(looks):
            parking.turn(looked_at(gpu))
        return parking.holds(job), parking.why_not(job, [])


def test_one_that_keeps_its_memory_is_judged_again_and_not_asked_again(tmp_path: pathlib.Path, me: Process) -> None:
    left_alone, why = is_left_alone(tmp_path, me, held(pid=me.pid, memory_gib=20))
    assert not left_alone
    assert "has kept its GPU memory" in str(why)


def test_one_that_keeps_only_its_contexts_stays_parked(tmp_path: pathlib.Path, me: Process) -> None:
    assert is_left_alone(tmp_path, me, held(pid=me.pid, memory_gib=1))[0]


def test_what_the_driver_still_lists_right_after_it_fell_asleep_counts_for_nothing(
    tmp_path: pathlib.Path, me: Process
) -> None:
    assert is_left_alone(tmp_path, me, held(pid=me.pid, memory_gib=20), looks=2)[0]


def test_where_the_driver_does_not_say_it_stays_parked(tmp_path: pathlib.Path, me: Process) -> None:
    assert is_left_alone(tmp_path, me, idle(holders=Unknown("the driver does not answer")))[0]
