"""The file of parked jobs: what is written is read again, and what makes no sense is not believed."""

import os
import pathlib

import pytest

from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.engine.machine.world import World
from fallow.engine.park.record import ParkRecord
from fallow.readers.proc import Proc

STAT = Proc().stat(os.getpid())
assert STAT is not None
ME = Process(os.getpid(), STAT.birth)
GONE = Process(os.getpid(), STAT.birth - 1)


def record(folder: pathlib.Path) -> ParkRecord:
    return ParkRecord(World({"FALLOW_STATE_DIR": str(folder)}))


def test_what_is_written_is_read_again_without_processes_that_have_ended(tmp_path: pathlib.Path) -> None:
    owner = ("notebook", "1234", "train.ipynb")
    sizes = (("GPU-1", 2**34), ("GPU-2", 1))
    job = ParkedJob(ME, (ME, GONE), "ada", "job 7 (python)", sizes, 1.5, owner=owner, holders=(ME,))
    ended = ParkedJob(GONE, (GONE,), "eve", "job 8 (python)", (), 2.5)
    record(tmp_path / "state").write([job, ended])
    (read,) = record(tmp_path / "state").read()
    assert read.processes == (ME,)
    assert (read.user, read.gpus, read.owner) == ("ada", sizes, owner)
    assert (tmp_path / "state" / "parked").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("holder", "stays"), [(ME, True), (GONE, False)])
def test_a_job_is_forgotten_once_nothing_that_held_its_gpus_lives(
    tmp_path: pathlib.Path, holder: Process, stays: bool
) -> None:
    job = ParkedJob(ME, (ME, GONE), "eve", "job", (("GPU-1", 1),), 0.0, holders=(holder,))
    assert (record(tmp_path / "state").living(job) is not None) is stays


def test_without_a_file_nothing_is_parked(tmp_path: pathlib.Path) -> None:
    assert record(tmp_path / "state").read() == ()


def test_a_file_with_nonsense_names_no_job(tmp_path: pathlib.Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "parked").write_bytes(b'nonsense\n[]\n{"first": [1]}\n\xff\n')
    assert record(tmp_path / "state").read() == ()
