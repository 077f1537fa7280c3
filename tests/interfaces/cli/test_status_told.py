"""What `fallow status` calls things: filled, claimed, simulated, and names that make no sense."""

import json
import os
import pathlib
import subprocess
import time
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import LIMIT_S, Fill
from tests.standin import Process, World
from tests.waiting import PROGRAM_S, until

GIB = 2**30


def told(fallow: Fallow, *words: str) -> dict[str, Any]:
    done = fallow("status", "--json", *words)
    assert done.returncode == 0, done.stderr
    status: dict[str, Any] = json.loads(done.stdout)
    return status


def wait_for_exec(process: "subprocess.Popen[str]", name: str) -> None:
    """Until a launch has become its command."""
    by_s = time.monotonic() + LIMIT_S
    while pathlib.Path(f"/proc/{process.pid}/comm").read_text() != f"{name}\n":
        assert process.poll() is None
        assert time.monotonic() < by_s
        time.sleep(0.02)


@pytest.mark.more
def test_a_card_with_only_a_filler_on_it_is_filled_and_can_be_had(simulated: Fallow) -> None:
    """F9"""
    running = Fill(simulated.start("fill", "--gpus", "0", "--idle-for", "0", "--", "sleep", "1000"))
    running.until("filling it")
    status = until(lambda: told(simulated), lambda now: now["gpus"][0]["activity"] != "free", pause_s=PROGRAM_S)
    assert [gpu["activity"] for gpu in status["gpus"]] == ["filled", "free", "free", "free"]
    assert status["available"] == 4
    assert (status["counts"]["free"], status["counts"]["filled"]) == (3, 1)
    table = simulated("status").stdout
    assert "4 available (3 free, 1 filled)" in table.splitlines()[0]
    assert "filler: sleep" in table
    assert "a filler, which yields: sleep 1000" in simulated("status", "-l").stdout


def test_the_mark_of_a_filler_on_somebodys_card_makes_it_nobodys_filler(world: World, fallow: Fallow) -> None:
    """F9, V7: a lock that anybody can take."""
    running = Fill(fallow.start("fill", "--gpus", "0", "--idle-for", "0", "--", "sleep", "1000"))
    running.until("filling it")
    world[0].compute = [Process(os.getpid(), 2 * GIB)]
    world[0].memory_used = 2 * GIB
    (gpu,) = told(fallow, "0")["gpus"]
    assert gpu["activity"] != "filled"
    assert gpu["filler"] is None


@pytest.mark.more
def test_a_claim_that_nobody_uses_is_the_claimers_and_not_free(world: World, fallow: Fallow) -> None:
    """V8"""
    launch = fallow.start("run", "--gpus", "2", "--", "sleep", "1000")
    wait_for_exec(launch, "sleep")
    status = told(fallow)
    assert [gpu["activity"] for gpu in status["gpus"]].count("free") == 7
    assert status["available"] == 7
    fresh = status["gpus"][2]
    assert (fresh["activity"], fresh["reason"]) == ("busy", "just_claimed"), "a launch is given the time to start"
    watching = fallow.start("status", "2", "--watch", "--json")
    assert watching.stdout is not None
    by_s = time.monotonic() + LIMIT_S
    while (gpu := json.loads(watching.stdout.readline())["gpus"][0])["for_s"] == 0:
        assert time.monotonic() < by_s
    assert gpu["activity"] == "idle", "at the first look it is what it is"
    assert "sleep" in gpu["because"]
    assert f"pid {launch.pid}" in gpu["because"]
    assert gpu["claim"]["pid"] == launch.pid


def test_the_name_of_a_card_cannot_move_the_cursor(world: World, fallow: Fallow) -> None:
    """Weak: GPU names printed raw."""
    world[0].name = "NVIDIA\x1b[2J\x1b]0;mine\x07\r\n\u202egnp"
    table = fallow("status", PYTHONUTF8="1").stdout
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert "NVIDIA?[2J?]0;mine" in table.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "cards"),
    [
        (("--simulate", "2xH100", "status"), 2),
        (("status", "--simulate", "2xH100,1xT4"), 3),
        (("status", "0", "--simulate", "2xH100"), 1),
        (("status", "--simulate", "0"), 1),
        (("--simulate", "status"), 8),
        (("status", "--simulate=3"), 3),
        (("status", "--simulate"), 8),
    ],
)
def test_a_simulated_machine_may_stand_behind_its_option(fallow: Fallow, words: tuple[str, ...], cards: int) -> None:
    """F19: and a bare --simulate swallows neither a verb nor a GPU."""
    done = fallow(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["gpus"]) == cards


def test_the_machine_behind_the_option_is_no_word_of_the_command(fallow: Fallow) -> None:
    """F19"""
    done = fallow("run", "--simulate", "2xH100", "--", "echo", "--simulate", "2xH100")
    assert done.stdout == "--simulate 2xH100\n"
    assert fallow("--simulate", "2xNOSUCH", "status").returncode == 2
