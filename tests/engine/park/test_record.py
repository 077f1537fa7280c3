"""The file of parked jobs: what is written is read again, and what makes no sense is not believed."""

import json
import os
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fallow.core.errors import FallowError
from fallow.core.parked import ParkedJob
from fallow.core.process import Process
from fallow.core.value import replace
from fallow.engine.machine.world import World
from fallow.engine.park.record import ParkRecord
from fallow.readers.proc import Proc
from tests.length import PLANS

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


@pytest.mark.more
def test_what_could_not_be_read_again_is_not_written(tmp_path: pathlib.Path) -> None:
    one = ParkedJob(ME, (ME,), "ada", "job 7 (python)", (), 0.0, holders=(ME,))
    many = tuple(Process(number, 1) for number in range(1, 500_000))
    record(tmp_path / "state").write([one])
    with pytest.raises(FallowError, match="too many jobs are parked"):
        record(tmp_path / "state").write([one, replace(one, processes=many)])
    assert record(tmp_path / "state").read() == (one,)


def test_without_a_file_nothing_is_parked(tmp_path: pathlib.Path) -> None:
    assert record(tmp_path / "state").read() == ()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
LINE = {
    "first": [ME.pid, ME.birth],
    "processes": [[ME.pid, ME.birth]],
    "holders": [[ME.pid, ME.birth]],
    "user": "ada",
    "name": "job",
    "gpus": [["GPU-1", 5]],
    "since_wall_s": 1.0,
    "owner": ["process", "", ""],
}
lines = st.one_of(
    st.text(max_size=40),
    anything.map(json.dumps),
    st.tuples(st.sampled_from(sorted(LINE)), anything).map(lambda change: json.dumps({**LINE, change[0]: change[1]})),
)


@settings(max_examples=PLANS)
@given(written=st.lists(lines, max_size=4))
def test_a_file_with_nonsense_names_no_job_and_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, written: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "nonsense"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "parked").write_text("\n".join(written), encoding="utf-8", errors="replace")
    for job in record(folder).read():
        assert job.processes == (ME,), "the only process that lives"
        assert job.in_words
        assert job.as_job.uuids == job.uuids
