"""The epilog of a Slurm job on simulated GPUs: it ends what is left of this job on its cards, and nothing else."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.conftest import LIMIT_S, Fallow
from tests.waiting import until

pytestmark = pytest.mark.more

DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"
)
JOB, OTHER = "700001", "700002"


class Node:
    """A node with simulated GPUs, and processes of jobs on it."""

    def __init__(self, fallow: Fallow) -> None:
        self.fallow = fallow

    def on(self, gpu: str, job: str | None = JOB, *words: str, **more: str) -> "subprocess.Popen[str]":
        """Start a process of a job on a GPU."""
        of_job = {} if job is None else {"SLURM_JOB_ID": job}
        return self.fallow.start_other(*(words or ("sleep", "1000")), CUDA_VISIBLE_DEVICES=gpu, **of_job, **more)

    def slurm(self, part: str, *words: str, gpus: str = "0,1", **more: str) -> "subprocess.CompletedProcess[str]":
        """Run a part as slurmd does."""
        given = {
            "SLURM_JOB_ID": JOB,
            "SLURM_JOB_UID": str(os.geteuid()),
            "SLURM_JOB_USER": "ada",
            "SLURM_JOB_GPUS": gpus,
        }
        return self.fallow("slurm", part, *words, **{**given, **more})


@pytest.fixture
def node(simulated: Fallow) -> Node:
    """A node of 4 simulated GPUs."""
    return Node(simulated)


def test_an_epilog_ends_what_is_left_of_this_job_on_its_cards_and_nothing_else(node: Node) -> None:
    left = node.on("0")
    spared = {
        "of the user's other job, on the same card": node.on("0", OTHER),
        "of no job, on the same card": node.on("1", None),
        "of this job, on a card of another one": node.on("3"),
        "of this job, on no card": node.on(""),
        "of this job on another node of this host": node.on("0", SLURMD_NODENAME="n2"),
    }
    done = node.slurm("epilog", "--json", SLURMD_NODENAME="n1")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [each["pid"] for each in said["ended"]] == [left.pid]
    assert left.wait(LIMIT_S) == -signal.SIGTERM
    assert {name: each.poll() for name, each in spared.items()} == dict.fromkeys(spared)
    assert f"pid {spared['of no job, on the same card'].pid}" in done.stderr  # it is named, and left alone
    why = node.fallow("why", "0").stdout
    assert f"Slurm job {JOB} has ended" in why


def test_a_leftover_that_does_not_listen_is_killed_with_its_children(node: Node) -> None:
    deaf = node.on("0", JOB, sys.executable, "-c", DEAF)
    assert deaf.stdout is not None
    assert deaf.stdout.readline() == "deaf\n"
    line = "setsid sleep 1000 & echo $!; wait"
    parent = node.on("0", JOB, "sh", "-c", line)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    done = node.slurm("epilog", "--grace", "0.5s")
    assert done.returncode == 0, done.stderr
    assert deaf.wait(LIMIT_S) == -signal.SIGKILL
    parent.wait(LIMIT_S)  # by its own signal, or because its child has ended
    until(lambda: _is_gone(child))


def test_a_child_that_belongs_to_another_job_is_spared(node: Node) -> None:
    line = f"SLURM_JOB_ID={OTHER} setsid sleep 1000 & echo $!; wait"
    parent = node.on("0", JOB, "sh", "-c", line)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    until(lambda: b"sleep" in _command(child))
    done = node.slurm("epilog")
    assert done.returncode == 0, done.stderr
    assert parent.wait(LIMIT_S) == -signal.SIGTERM
    assert not _is_gone(child)
    os.kill(child, signal.SIGKILL)


def test_a_process_that_only_says_that_it_is_of_another_users_job_is_left_alone(node: Node) -> None:
    liar = node.on("0")
    done = node.slurm("epilog", SLURM_JOB_UID="61234")
    assert done.returncode == 0, done.stderr
    assert liar.poll() is None


def test_a_dry_run_ends_nothing_and_says_what_it_would(node: Node) -> None:
    left = node.on("0")
    done = node.slurm("epilog", "--dry-run")
    assert done.returncode == 0
    assert f"would end pid {left.pid} (sleep, shown by its environment) with SIGTERM" in done.stderr
    assert left.poll() is None


@pytest.mark.as_root
def test_a_protection_of_root_counts_and_the_job_is_said_to_be_left(node: Node) -> None:
    left = node.on("0")
    assert node.fallow("protect", f"pid:{left.pid}", "--for", "1h").returncode == 0
    done = node.slurm("epilog")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is left of ada's Slurm job" in done.stderr
    assert "protects" in done.stderr
    assert left.poll() is None


@pytest.mark.as_root
@pytest.mark.parametrize(("users", "each"), [(1, 51), (1, 2001), (50, 41)])
def test_however_many_protections_others_have_they_keep_no_leftover(node: Node, users: int, each: int) -> None:
    """Nor do those that are not read because there are too many, as those of a user with many subordinate ids."""
    left, claims = node.on("0"), pathlib.Path(node.fallow.environ["FALLOW_CLAIM_DIR"])
    assert node.fallow("status").returncode == 0  # makes the folder
    for number in range(users * each):
        path = claims / f"protection-{100_000_000 + number}"
        path.touch()
        os.chown(path, 61_000 + number % users, 61_000)
    done = node.slurm("epilog")
    assert done.returncode == 0, done.stderr
    assert left.wait(LIMIT_S) == -signal.SIGTERM


@pytest.mark.as_root
def test_a_protection_of_root_counts_among_however_many_of_others(node: Node) -> None:
    left, claims = node.on("0"), pathlib.Path(node.fallow.environ["FALLOW_CLAIM_DIR"])
    assert node.fallow("protect", f"pid:{left.pid}", "--for", "1h").returncode == 0
    for number in range(3000):
        path = claims / f"protection-{number + 1}"
        path.touch()
        os.chown(path, 61_000 + number % 100, 61_000)
    done = node.slurm("epilog")
    assert done.returncode == 1
    assert "root protects" in done.stderr
    assert left.poll() is None


def test_a_job_without_gpus_needs_no_driver_and_no_job_is_a_mistake(fallow: Fallow) -> None:
    environ = {"SLURM_JOB_ID": JOB, "SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": ""}
    for part in ("prolog", "epilog"):
        assert fallow("slurm", part, **environ).returncode == 0
        assert fallow("slurm", part).returncode == 2
        assert fallow("slurm", part, SLURM_JOB_ID="1; reboot", SLURM_JOB_GPUS="0").returncode == 2


def test_an_epilog_that_takes_too_long_gives_up(node: Node) -> None:
    deaf = node.on("0", JOB, sys.executable, "-c", DEAF)
    assert deaf.stdout is not None
    deaf.stdout.readline()
    done = node.slurm("epilog", "--grace", "1000s", "--limit", "3s")
    assert (done.returncode, done.stdout) == (125, "")
    assert "did not end within 3 s" in done.stderr


def test_a_prolog_passes_free_cards_and_names_what_is_wrong_with_others(node: Node) -> None:
    assert node.slurm("prolog").returncode == 0
    own = node.on("0")
    assert node.slurm("prolog").returncode == 0  # its own processes may be there
    own.kill()
    other = node.on("1", OTHER)
    taken = node.slurm("prolog")
    assert taken.returncode == 1
    assert taken.stderr.startswith(f"fallow: GPU 1 is not free for ada's Slurm job {JOB}: pid {other.pid} is on it")
    assert taken.stderr.count("\n") == 1
    assert node.slurm("prolog", "--dry-run").returncode == 0
    assert node.slurm("prolog", gpus="2-3").returncode == 0
    missing = node.slurm("prolog", gpus="2,9")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "GPU 9 of ada's Slurm job" in missing.stderr


def test_a_process_that_only_says_that_it_is_of_the_job_does_not_make_its_card_free(node: Node) -> None:
    liar = node.on("0")
    for said in ({"SLURM_JOB_UID": "61234"}, {"SLURM_JOB_UID": ""}):
        refused = node.slurm("prolog", **said)
        assert refused.returncode == 1
        assert f"pid {liar.pid} is on it" in refused.stderr


def test_health_prints_what_is_wrong_and_drains_nothing_by_itself(node: Node, fallow: Fallow) -> None:
    assert node.slurm("health", "--count", "4").returncode == 0
    short = node.slurm("health", "--count", "8", "--json")
    assert short.returncode == 1
    assert json.loads(short.stdout)["troubles"] == ["the driver lists 4 of 8 GPUs"]
    assert json.loads(short.stdout)["drained"] is None
    dry = node.slurm("health", "--count", "8", "--drain", "--dry-run", PATH="/nowhere:" + fallow.environ["PATH"])
    assert (dry.returncode, dry.stdout) == (0, "")
    assert "would be drained" in dry.stderr


def _is_gone(pid: int) -> bool:
    return not _command(pid)


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
