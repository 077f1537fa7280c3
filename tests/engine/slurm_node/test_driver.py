"""Prolog, epilog and health with a driver: cards that are lost, and processes that the driver does not list."""

import pathlib
import subprocess
import sys

from tests.conftest import LIMIT_S, Fallow
from tests.standin import World

JOB = {"SLURM_JOB_ID": "700101", "SLURM_JOB_USER": "ada", "SLURM_JOB_GPUS": "1,2"}
HOLDS = "import sys, time; file = open(sys.argv[1]); print('open', flush=True); time.sleep(1000)"


def test_a_lost_card_fails_the_prolog_of_its_job_and_the_health_check_in_one_sentence(
    world: World, fallow: Fallow
) -> None:
    assert fallow("slurm", "prolog", **JOB).returncode == 0
    assert fallow("slurm", "health", "--count", "8").returncode == 0
    world.fault("*", card=2, error=15)
    refused = fallow("slurm", "prolog", **JOB)
    assert refused.returncode == 1
    assert "GPU 2" in refused.stderr
    assert "lost" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert fallow("slurm", "prolog", **{**JOB, "SLURM_JOB_GPUS": "0,1"}).returncode == 0
    health = fallow("slurm", "health")
    assert health.returncode == 1
    assert "GPU 2: " in health.stderr


def test_memory_that_nobody_holds_is_not_free(world: World, fallow: Fallow) -> None:
    world[1].memory_used = 8 << 30
    refused = fallow("slurm", "prolog", **JOB)
    assert refused.returncode == 1
    assert "GPU 1 is not free for ada's Slurm job 700101" in refused.stderr


def test_an_epilog_finds_a_leftover_by_its_device_file_that_the_driver_does_not_list(
    world: World, fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    fallow.environ.update(world.nodes(tmp_path / "dev"))

    def opens(card: int, job: str) -> "subprocess.Popen[str]":
        path = f"{fallow.environ['FALLOW_DEVICES']}/nvidia{card}"
        process = fallow.start_other(sys.executable, "-c", HOLDS, path, SLURM_JOB_ID=job)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        return process

    left, other_job, other_card = opens(2, "700101"), opens(2, "700102"), opens(3, "700101")
    done = fallow("slurm", "epilog", **JOB)
    assert done.returncode == 0, done.stderr
    left.wait(LIMIT_S)
    assert other_job.poll() is None
    assert other_card.poll() is None


def test_a_driver_that_does_not_begin_fails_a_job_with_gpus_in_one_sentence(world: World, fallow: Fallow) -> None:
    world.fault("nvmlInit", error=9)
    for part in ("prolog", "epilog", "health"):
        done = fallow("slurm", part, **JOB)
        assert done.returncode in (1, 69), done.stderr
        assert done.stderr.count("\n") == 1
