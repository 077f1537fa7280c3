"""`fallow burn`: what it holds, finds and says, how it leaves, and how it fails."""

import json
import os
import pathlib
import select
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.standin import World
from tests.waiting import PROGRAM_S, until

MIB = 2**20


@pytest.fixture
def cards(make_world: Callable[..., World]) -> World:
    """Two cards with 400 MiB free each: kernels write every word of what is held."""
    world = make_world(cards=2, memory_total=1000 * MIB)
    for card in world:
        card.memory_reserved, card.memory_used = 600 * MIB, 0
    return world


def held(world: World, card: int = 0) -> int:
    return sum(world.cuda_memory(card).values())


def until_held(world: World, *cards: int) -> None:
    until(lambda: all(held(world, card) >= 350 * MIB for card in cards))


def ended(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = job.communicate(timeout=LIMIT_S)
    return job.returncode, out, err


def burned(fallow: Fallow, *words: str) -> list[dict[str, Any]]:
    done = fallow("burn", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["gpus"]
    return found


def test_each_card_has_a_process_that_holds_88_per_cent_of_it(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn")
    until_held(cards, 0, 1)
    pids = [list(cards.cuda_memory(card)) for card in (0, 1)]
    assert [len(those) for those in pids] == [1, 1]
    assert pids[0] != pids[1]
    assert held(cards) == 352 * MIB
    job.terminate()
    assert ended(job)[0] == 0


@pytest.mark.parametrize(("memory", "size"), [("50%", 200 * MIB), ("64MiB", 64 * MIB)])
def test_memory_is_a_share_of_what_is_free_or_a_size(cards: World, fallow: Fallow, memory: str, size: int) -> None:
    gpu = burned(fallow, "--gpus", "0", "--memory", memory, "--for", "100ms")[0]
    assert gpu["held_bytes"] == size


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_who_is_asked_to_leave_frees_its_memory_and_reports(cards: World, fallow: Fallow, number: int) -> None:
    job = fallow.start("burn", "--load", "matmul")
    until_held(cards, 0, 1)
    os.killpg(job.pid, number)
    code, out, err = ended(job)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["GPU", "0", "1"]
    assert (held(cards, 0), held(cards, 1)) == (0, 0)


def test_a_process_that_somebody_killed_is_a_card_that_failed(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn", "--gpus", "0")
    until_held(cards, 0)
    os.kill(next(iter(cards.cuda_memory(0))), signal.SIGKILL)
    code, out, err = ended(job)
    assert code == 1
    assert err == "fallow: GPU 0: the process on it died of signal 9\n"
    assert out.splitlines()[1].split()[-1] == "failed"


def test_they_are_gone_with_a_parent_that_was_killed(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn", "--load", "matmul")
    until_held(cards, 0, 1)
    pids = [*cards.cuda_memory(0), *cards.cuda_memory(1)]
    handles = [os.pidfd_open(pid) for pid in pids]
    job.kill()
    for handle in handles:
        assert select.select([handle], [], [], LIMIT_S)[0], "it lives on"
        os.close(handle)


@pytest.mark.parametrize("load", ["memory", "warm", "matmul"])
def test_a_healthy_card_verifies_clean(cards: World, fallow: Fallow, load: str) -> None:
    job = fallow.start("burn", "--json", "--gpus", "1", "--load", load, "--verify", "--memory", "50MiB")
    until(lambda: cards.calls("cuEventSynchronize") > 8)
    os.killpg(job.pid, signal.SIGTERM)
    code, out, err = ended(job)
    assert code == 0, err
    (gpu,) = json.loads(out)["gpus"]
    assert gpu["wrong_words"] == 0
    assert gpu["checked_bytes"] > 25 * MIB


@pytest.mark.parametrize(("load", "found"), [("memory", 3), ("matmul", 3)])
def test_a_faulty_card_is_found_and_the_exit_code_is_1(cards: World, fallow: Fallow, load: str, found: int) -> None:
    job = fallow.start("burn", "--gpus", "1", "--load", load, "--verify", "--memory", "120MiB")
    # The product that all others are compared with is there before the last piece of memory is held.
    until(lambda: held(cards, 1) >= 120 * MIB)
    cards.spoil(1, found)
    calls = cards.calls("cuEventSynchronize")
    until(lambda: cards.calls("cuEventSynchronize") > calls + 16)
    os.killpg(job.pid, signal.SIGTERM)
    code, out, err = ended(job)
    assert code == 1
    assert f"GPU 1: {found} wrong words: this card is not to be trusted" in err
    assert [line.split()[-1] for line in out.splitlines()] == ["errors", str(found)]


def test_a_kernel_that_faults_is_a_sentence(cards: World, fallow: Fallow) -> None:
    cards.fault("cuLaunchKernel", card=0, error=719)
    done = fallow("burn", "--gpus", "0", "--verify")
    assert done.returncode == 1
    assert "GPU 0: the driver reports CUDA_ERROR_LAUNCH_FAILED" in done.stderr
    assert "Traceback" not in done.stderr


def test_more_memory_than_there_is_ends_with_75_and_nothing_held(cards: World, fallow: Fallow) -> None:
    done = fallow("burn", "--gpus", "0", "--memory", "1GiB")
    assert done.returncode == 75
    assert "GPU 0: out of memory: 624 MiB of the 1.0 GiB that were asked for are missing" in done.stderr
    assert held(cards) == 0


def test_too_old_a_driver_is_told_with_what_it_needs(cards: World, fallow: Fallow) -> None:
    cards.cuda_version = 11040
    done = fallow("burn")
    assert done.returncode == 69
    assert done.stderr == (
        "fallow: the driver speaks CUDA 11.4; loading a GPU needs one for CUDA 12.0 or newer (525)\n"
    )


def test_without_cuda_bindings_it_says_what_to_install(cards: World, fallow: Fallow, tmp_path: pathlib.Path) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "__init__.py").touch()  # hides the real one
    done = fallow("burn", PYTHONPATH=str(tmp_path))
    assert done.returncode == 69
    assert f"loading a GPU needs cuda-bindings, which is not installed; run: {BIN}/python" in done.stderr
    assert done.stderr.endswith(" -m pip install 'cuda-bindings>=12.8'\n")


def test_an_outer_allocation_binds(cards: World, fallow: Fallow) -> None:
    assert [gpu["index"] for gpu in burned(fallow, "--for", "100ms", "--memory", "2MiB")] == [0, 1]
    fallow.environ["CUDA_VISIBLE_DEVICES"] = cards[1].uuid
    assert [gpu["index"] for gpu in burned(fallow, "--for", "100ms", "--memory", "2MiB")] == [1]
    refused = fallow("burn", "--gpus", "0")
    assert refused.returncode == 75
    assert "GPU 0: hidden by CUDA_VISIBLE_DEVICES" in refused.stderr


def test_every_field_of_the_json_is_documented(cards: World, fallow: Fallow) -> None:
    done = json.loads(fallow("burn", "--gpus", "0", "--for", "100ms", "--json").stdout)
    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text().partition("fallow burn")[2]
    assert [name for name in (*done, *done["gpus"][0]) if f"`{name}`" not in text] == []


@pytest.mark.more
def test_a_card_that_somebody_has_claimed_is_refused_with_their_name(simulated: Fallow) -> None:
    claimed = simulated.start("run", "--gpus", "1", "--", "sh", "-c", "echo ready; read line")
    assert claimed.stdout is not None
    assert claimed.stdout.readline() == "ready\n"
    for words in (("--gpus", "0,1"), ()):
        done = simulated("burn", "--for", "10ms", *words)
        assert done.returncode == 75
        assert "a GPU that another job has claimed is not loaded: GPU 1 is claimed by root for sh (" in done.stderr
        assert f"(pid {claimed.pid})" in done.stderr
    assert simulated("burn", "--for", "10ms", "--gpus", "0,2").returncode == 0


@pytest.mark.more
def test_on_simulated_gpus_a_real_process_holds_a_thousandth(simulated: Fallow) -> None:
    job = simulated.start("burn", "--gpus", "2", "--load", "matmul", "--verify")

    def card() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(simulated("status", "--json", "2").stdout)["gpus"][0]
        return found

    until(lambda: any(holder["memory_bytes"] > 70 * MIB for holder in card()["holders"]), pause_s=PROGRAM_S)
    assert card()["activity"] == "busy"
    os.killpg(job.pid, signal.SIGTERM)
    code, out, _ = ended(job)
    assert code == 0
    assert out.startswith("simulated GPUs: 1/1024 of the memory, and no rates\n")
    assert card()["holders"] == []


@pytest.mark.more
def test_the_memory_is_freed_while_the_working_thread_sits_in_the_driver(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn", "--gpus", "0", "--load", "matmul")
    until_held(cards, 0)
    cards.fault("cuEventSynchronize", card=0, never=True)
    until(lambda: cards.stuck() == 1)
    os.killpg(job.pid, signal.SIGTERM)
    until(lambda: held(cards) <= 2 * MIB)  # the counter of errors goes with the process
    assert cards.stuck() == 1
    code, _, err = ended(job)
    assert code == 1
    assert "GPU 0: it does not come to the end of its work" in err
