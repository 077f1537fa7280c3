"""`fallow run` becomes the command, on cards that are its own."""

import re
import signal

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import World
from tests.terminal import Terminal


def test_the_exit_code_is_the_command_s(simulated: Fallow) -> None:
    assert simulated("run", "--", "sh", "-c", "exit 7").returncode == 7


def test_a_death_by_signal_is_the_command_s(simulated: Fallow) -> None:
    assert simulated("run", "--", "sh", "-c", "kill -SEGV $$").returncode == -signal.SIGSEGV


def test_the_command_sees_its_cards_and_the_rest_of_the_environment_unchanged(world: World, fallow: Fallow) -> None:
    done = fallow("run", "-n", "2", "--gpus", "2,5", "--", "env", SOMETHING="kept")
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert seen.pop("CUDA_VISIBLE_DEVICES") == f"{world[2].uuid},{world[5].uuid}"
    assert seen.pop("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    assert seen.pop("FALLOW_CLAIM") == f"{world[2].uuid},{world[5].uuid}"
    assert seen == {**fallow.environ, "SOMETHING": "kept"}


def test_cards_can_be_named_by_index(world: World, fallow: Fallow) -> None:
    done = fallow("run", "--gpus", "4", "--format", "index", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert done.stdout == "4\n"


def test_the_process_becomes_the_command(simulated: Fallow) -> None:
    job = simulated.start("run", "--", "sh", "-c", "echo $$; read line")
    assert job.stdout is not None
    assert int(job.stdout.readline()) == job.pid
    job.communicate("\n", timeout=LIMIT_S)


def test_the_command_has_the_caller_s_terminal_where_fallow_says_what_it_got(simulated: Fallow) -> None:
    words = ["fallow", "run", "--", "sh", "-c", "test -t 0 && test -t 1 && tty"]
    with Terminal(words, simulated.environ) as terminal:
        assert terminal.ended() == 0
    assert re.fullmatch(r"fallow: on GPU \d \(NVIDIA H100 80GB HBM3\)\r\n/dev/pts/\d+\r\n", terminal.shown)


def test_the_command_is_not_deaf_to_broken_pipes(simulated: Fallow) -> None:
    done = simulated("run", "--", "bash", "-c", "trap -p SIGPIPE; kill -PIPE $$; echo survived")
    assert done.returncode == -signal.SIGPIPE
    assert done.stdout == ""


def test_no_descriptor_but_the_claim_is_left_open(simulated: Fallow) -> None:
    done = simulated("run", "-n", "2", "--", "sh", "-c", "ls -l /proc/$$/fd")
    inherited = [line for line in done.stdout.splitlines() if " -> " in line and "claims/GPU" in line]
    others = [
        line for line in done.stdout.splitlines() if " -> " in line and "pipe" not in line and "null" not in line
    ]
    assert len(inherited) == 2
    assert others == inherited


def test_a_dry_run_says_what_would_be_run_and_runs_nothing(simulated: Fallow) -> None:
    done = simulated("run", "--dry-run", "--gpus", "3", "--", "echo", "two words")
    assert (done.returncode, done.stdout) == (0, "")
    assert "would run on GPU 3" in done.stderr
    assert "echo 'two words'" in done.stderr
    assert simulated("run", "--gpus", "3", "--", "true").returncode == 0


def test_more_than_one_launch_shares_the_machine_and_not_the_cards(simulated: Fallow) -> None:
    jobs = [simulated.start("run", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; read line") for _ in range(4)]
    cards = set()
    for job in jobs:
        assert job.stdout is not None
        cards.add(job.stdout.readline())
    assert len(cards) == 4
    full = simulated("run", "--", "true")
    assert full.returncode == 75
    assert full.stderr.count("claimed by") == 4
    for job in jobs:
        job.communicate("\n", timeout=LIMIT_S)
