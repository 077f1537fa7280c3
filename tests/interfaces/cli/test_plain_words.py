"""What people type means what they expect, and fallow says what they got."""

import os
import pty
import subprocess

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S, REPOSITORY
from tests.standin import Process, World

SHOW = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--gpus", "2,3"), "2,3"),
        (("--gpus", "0-2"), "0,1,2"),
        (("--gpus", "1"), "1"),
        (("--gpus", "all"), "0,1,2,3"),
        (("--gpus", "GPU-fa110000-0000-4000-8000-000000000003,0"), "0,3"),
    ],
)
def test_a_list_of_gpus_means_all_of_them(simulated: Fallow, words: tuple[str, ...], given: str) -> None:
    """F20"""
    assert simulated("pick", *words).stdout == f"{given}\n"
    assert simulated("run", *words, "--format", "index", "--", *SHOW).stdout == f"{given}\n"


def test_with_a_count_a_list_is_what_to_choose_among(simulated: Fallow) -> None:
    """F20"""
    assert simulated("pick", "-n", "1", "--gpus", "2,3", "--order", "index").stdout == "2\n"
    assert simulated("pick").stdout.count(",") == 0


def test_all_are_those_that_an_outer_allocation_leaves(simulated: Fallow) -> None:
    """F20"""
    assert simulated("pick", "--gpus", "all", CUDA_VISIBLE_DEVICES="1,3").stdout == "1,3\n"
    assert simulated("pick", "--gpus", "0,1", CUDA_VISIBLE_DEVICES="1,3").returncode == 75


@pytest.mark.parametrize(
    ("words", "write"),
    [
        (("pick", "--min-free", "40"), "write 40GiB, 40MiB or 40B"),
        (("run", "--idle-timeout", "30", "--", "true"), "write 30s, 30m, 30h or 30d"),
        (("run", "--stuck-timeout", "1.5", "--", "true"), "write 1.5s, 1.5m, 1.5h or 1.5d"),
        (("guard", "--idle-for", "30"), "write 30s, 30m, 30h or 30d"),
        (("protect", "--for", "8"), "write 8s, 8m, 8h or 8d"),
        (("report", "--since", "7"), "write 7s, 7m, 7h or 7d"),
    ],
)
def test_a_number_without_its_unit_is_refused_with_what_to_write(
    simulated: Fallow, words: tuple[str, ...], write: str
) -> None:
    """F20"""
    done = simulated(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert write in done.stderr


def test_on_a_terminal_run_says_what_it_got_and_in_a_log_nothing(simulated: Fallow) -> None:
    """F20"""
    ours, its = pty.openpty()
    words = ["fallow", "run", "--gpus", "1,3", "--", "true"]
    done = subprocess.run(
        words, env=simulated.environ, stdin=its, stdout=its, stderr=its, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0
    assert os.read(ours, 4096) == b"fallow: on GPUs 1, 3 (NVIDIA H100 80GB HBM3)\r\n"
    os.close(ours)
    os.close(its)
    assert simulated("run", "--", "true").stderr == ""


def test_an_empty_card_is_given_before_a_filled_one(simulated: Fallow) -> None:
    """F10"""
    filling = Fill(simulated.start("fill", "--gpus", "0,1,3", "--idle-for", "0", "--", "sleep", "1000"))
    filling.until("filling it", times=3)
    for order in ("best", "random", "index"):
        assert simulated("run", "--order", order, "--format", "index", "--", *SHOW).stdout == "2\n"
    assert simulated("run", "-n", "2", "--format", "index", "--", *SHOW).stdout in ("0,2\n", "1,2\n", "2,3\n")
    filling.until("filling it")  # again, where that one ran
    assert simulated("pick").stdout == "2\n"


@pytest.mark.parametrize(
    "words", [("pick",), ("pick", "--wait", "1s"), ("run", "--", "true"), ("run", "--wait", "1s", "--", "true")]
)
def test_a_held_card_without_samples_is_unknown_to_everybody_who_picks(
    world: World, fallow: Fallow, words: tuple[str, ...]
) -> None:
    """F29"""
    world.fault("nvmlDeviceGetSamples", error=3)
    world[0].compute = [Process(os.getpid(), 2**30)]
    done = fallow(words[0], "--gpus", "0", "--max-processes", "1", *words[1:])
    assert (done.returncode, done.stdout) == (75, "")
    assert "GPU 0: its utilization is unknown" in done.stderr


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ("nr_inodes=1", 125, "No space left on device; put that right, or name another folder in FALLOW_CLAIM_DIR"),
        ("ro", 77, "mounted read-only; remount it, or name another folder in FALLOW_CLAIM_DIR"),
    ],
)
@pytest.mark.parametrize("words", ["pick", "run -- true"])
def test_a_claim_folder_that_is_full_or_read_only_is_one_sentence(
    simulated: Fallow, options: str, code: int, says: str, words: str
) -> None:
    """F38, F33"""
    claims = simulated.environ["FALLOW_CLAIM_DIR"]
    os.mkdir(claims)
    script = f'mount -t tmpfs -o mode=1777,{options} none "$1" && exec fallow {words}'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", claims],
        env=simulated.environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
