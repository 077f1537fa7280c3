"""`fallow slurm check`, as the prolog and the health check of a Slurm node call it."""

import pytest

from fallow.engine.slurm_check import gpus_of_job
from tests.conftest import Fallow
from tests.standin import World

JOB = {"SLURM_JOB_ID": "700101", "SLURM_JOB_GPUS": "1,2"}


def test_a_lost_card_fails_the_prolog_of_its_job_and_the_health_check_in_one_sentence(
    world: World, fallow: Fallow
) -> None:
    assert fallow("slurm", "check", "--free", **JOB).returncode == 0
    assert fallow("slurm", "check", "--count", "8").returncode == 0
    world.fault("*", card=2, error=15)
    for refused in (fallow("slurm", "check", "--free", **JOB), fallow("slurm", "check")):
        assert refused.returncode == 1
        assert "GPU 2: " in refused.stderr
        assert "lost" in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert fallow("slurm", "check", "--free", **{**JOB, "SLURM_JOB_GPUS": "0,1"}).returncode == 0


def test_a_card_with_memory_that_nobody_holds_answers_and_is_not_free(world: World, fallow: Fallow) -> None:
    world[1].memory_used = 8 << 30
    refused = fallow("slurm", "check", "--free", **JOB)
    assert (refused.returncode, refused.stderr.startswith("fallow: GPU 1 is not free: ")) == (1, True)
    assert fallow("slurm", "check", **JOB).returncode == 0


def test_a_driver_that_does_not_begin_fails_all_but_a_job_without_gpus(world: World, fallow: Fallow) -> None:
    world.fault("nvmlInit", error=9)
    for words in (("--free",), ("--count", "8")):
        done = fallow("slurm", "check", *words, **JOB)
        assert (done.returncode, done.stderr.startswith("fallow: ")) == (69, True)
    assert fallow("slurm", "check", "--free", SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="").returncode == 0


@pytest.mark.more
def test_a_process_of_anybody_takes_a_card_and_a_missing_card_is_named(simulated: Fallow) -> None:
    other = simulated.start_other("sleep", "1000", CUDA_VISIBLE_DEVICES="1")
    taken = simulated("slurm", "check", "--free", **JOB)
    assert (taken.returncode, f"pid {other.pid}" in taken.stderr) == (1, True)
    assert simulated("slurm", "check", "--free", **{**JOB, "SLURM_JOB_GPUS": "2-3"}).returncode == 0
    missing = simulated("slurm", "check", **{**JOB, "SLURM_JOB_GPUS": "2,9"})
    assert (missing.returncode, missing.stderr) == (1, "fallow: GPU 9 is not there; the driver lists 4\n")
    short = simulated("slurm", "check", "--count", "8")
    assert (short.returncode, short.stderr) == (1, "fallow: the driver lists 4 of 8 GPUs\n")


@pytest.mark.parametrize(
    ("environ", "gpus"),
    [
        ({}, None),
        ({"SLURM_JOB_GPUS": "0"}, None),
        ({"SLURM_JOB_ID": "7"}, ()),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,2-3,GPU-a"}, ("0", "2", "3", "GPU-a")),
        ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "1"}, ("1",)),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "3-1"}, ("3-1",)),
    ],
)
def test_the_gpus_of_a_job_are_those_that_slurmd_names(environ: dict[str, str], gpus: tuple[str, ...] | None) -> None:
    assert gpus_of_job(environ) == gpus
