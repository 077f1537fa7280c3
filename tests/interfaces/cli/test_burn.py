"""`fallow burn`: what it holds, finds and says, how it leaves, and how it fails."""

import itertools
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.length import MORE
from tests.places import BIN, LIMIT_S, REPOSITORY
from tests.standin import CUDA_SONAME, SONAME, World
from tests.waiting import PROGRAM_S, until

MIB = 2**20
LOST = 15  # NVML's number
ASKS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


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


def first_child(job: subprocess.Popen[str]) -> int:
    """The first process that it starts, once it is a program of its own."""
    children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children")
    until(lambda: children.read_text() != "")
    pid = int(children.read_text().split()[0])
    until(lambda: b"fallow.engine.burn.worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())
    return pid


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


@pytest.mark.parametrize(("memory", "size"), [("50%", 200 * MIB), ("25", 100 * MIB), ("64MiB", 64 * MIB)])
def test_memory_is_a_share_of_what_is_free_or_a_size(cards: World, fallow: Fallow, memory: str, size: int) -> None:
    gpu = burned(fallow, "--gpus", "0", "--memory", memory, "--for", "100ms")[0]
    assert gpu["held_bytes"] == size


@pytest.mark.parametrize("number", ASKS)
@pytest.mark.parametrize("whole_group", [True, False])
def test_who_is_asked_to_leave_frees_its_memory_and_reports(
    cards: World, fallow: Fallow, number: int, whole_group: bool
) -> None:
    job = fallow.start("burn", "--load", "matmul")
    until_held(cards, 0, 1)
    (os.killpg if whole_group else os.kill)(job.pid, number)
    code, out, err = ended(job)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["GPU", "0", "1"]
    assert (held(cards, 0), held(cards, 1)) == (0, 0)


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


def test_who_is_asked_while_it_is_still_taking_memory_leaves_at_once(cards: World, fallow: Fallow) -> None:
    cards.fault("cuModuleLoadData", card=0, delay_s=0.5)
    job = fallow.start("burn", "--gpus", "0", "--load", "warm")
    until(lambda: cards.calls("cuModuleLoadData") == 1)
    job.terminate()
    assert ended(job)[0] == 0
    assert cards.calls("cuMemFree") == 0


@pytest.mark.more
def test_asked_twice_it_does_not_wait_for_a_driver_that_hangs(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn", "--gpus", "0")
    until_held(cards, 0)
    cards.fault("cuMemFree", card=0, never=True)
    os.kill(job.pid, signal.SIGINT)
    until(lambda: cards.stuck() == 1)
    while cards.cuda_memory(0):
        os.kill(job.pid, signal.SIGINT)  # what comes within a second is the same question
        time.sleep(0.1)  # or it would do nothing but hear us
    code, _, err = ended(job)
    assert code == 1
    assert "GPU 0: it had not left when it was asked again, and was killed" in err


@pytest.mark.more
def test_a_card_that_hangs_when_its_time_is_over_is_told_and_keeps_nobody(cards: World, fallow: Fallow) -> None:
    cards.fault("cuMemFree", card=0, never=True)
    code, out, err = ended(fallow.start("burn", "--for", "100ms", "--json"))
    assert code == 1
    assert err == "fallow: GPU 0: it did not leave within 10 s of being asked to, and was killed\n"
    assert [gpu["failed"] is None for gpu in json.loads(out)["gpus"]] == [False, True]


@pytest.mark.more
def test_work_that_goes_on_when_its_time_is_over_is_asked_to_leave(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn", "--gpus", "0", "--load", "matmul", "--for", "1s")
    until_held(cards, 0)
    cards.fault("cuEventSynchronize", card=0, never=True)
    code, _, err = ended(job)
    assert code == 1
    assert err == "fallow: GPU 0: it does not come to the end of its work\n"


def test_a_process_that_somebody_killed_is_a_card_that_failed(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn", "--gpus", "0")
    until_held(cards, 0)
    os.kill(next(iter(cards.cuda_memory(0))), signal.SIGKILL)
    code, out, err = ended(job)
    assert code == 1
    assert err == "fallow: GPU 0: the process on it died of signal 9\n"
    assert out.splitlines()[1].split()[-1] == "failed"


@pytest.mark.parametrize(
    ("after_s", "number"), list(itertools.product([0.0, 0.02, 0.05, 0.1, 0.2], ASKS))[:: 1 if MORE else 4]
)
@pytest.mark.more
def test_asked_at_any_moment_of_its_start_it_leaves_in_good_order(
    simulated: Fallow, number: int, after_s: float
) -> None:
    job = simulated.start("burn", "--gpus", "0,1,2,3")
    first_child(job)
    select.select([], [], [], after_s)  # not for a result: these are the moments
    os.killpg(job.pid, number)
    code, out, err = ended(job)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["simulated", "GPU", "0", "1", "2", "3"]


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
@pytest.mark.more
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


@pytest.mark.more
def test_a_card_that_is_lost_in_mid_run_is_told_and_the_other_goes_on(cards: World, fallow: Fallow) -> None:
    job = fallow.start("burn", "--load", "matmul", "--for", "3s", "--json")
    until_held(cards, 0, 1)
    cards.fault("*", card=0, error=LOST)
    code, out, err = ended(job)
    assert code == 1
    assert "GPU 0: it does not answer any more; it may have fallen off the bus" in err
    lost, well = json.loads(out)["gpus"]
    assert "CUDA_ERROR_UNKNOWN" in lost["failed"]
    assert well["failed"] is None
    assert well["seconds"] >= 3


def test_a_kernel_that_faults_is_a_sentence(cards: World, fallow: Fallow) -> None:
    cards.fault("cuLaunchKernel", card=0, error=719)
    done = fallow("burn", "--gpus", "0", "--verify")
    assert done.returncode == 1
    assert "GPU 0: a kernel failed (CUDA_ERROR_LAUNCH_FAILED)" in done.stderr
    assert "Traceback" not in done.stderr


def test_more_memory_than_there_is_ends_with_75_and_nothing_held(cards: World, fallow: Fallow) -> None:
    done = fallow("burn", "--gpus", "0", "--memory", "1GiB")
    assert done.returncode == 75
    assert "GPU 0: out of memory: 624 MiB of the 1.0 GiB that were asked for are missing" in done.stderr
    assert held(cards) == 0


def test_large_chunks_that_cannot_be_had_are_taken_in_small_ones(cards: World, fallow: Fallow) -> None:
    cards[0].memory_used = 150 * MIB
    assert burned(fallow, "--gpus", "0", "--memory", "100%", "--for", "100ms")[0]["held_bytes"] == 250 * MIB


def test_too_old_a_driver_is_told_with_what_it_needs(cards: World, fallow: Fallow) -> None:
    cards.cuda_version = 11040
    done = fallow("burn")
    assert done.returncode == 69
    assert done.stderr == (
        "fallow: the driver speaks CUDA 11.4; loading a GPU needs one for CUDA 12.0 or newer (525)\n"
    )


def test_without_a_cuda_driver_it_says_so(
    cards: World, fallow: Fallow, library: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / SONAME).symlink_to(library / SONAME)
    (tmp_path / CUDA_SONAME).touch()  # no library, also if this machine has one
    done = fallow("burn", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 69
    assert done.stderr == "fallow: there is no NVIDIA driver here that speaks CUDA\n"


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


def test_power_heat_and_throttling_are_seen_while_it_runs(cards: World, fallow: Fallow) -> None:
    cards[0].power_mw, cards[0].temperature_c, cards[0].throttle_reasons = 650_000, 71, 4
    gpu = burned(fallow, "--gpus", "0", "--memory", "2MiB", "--for", "2500ms")[0]
    assert (gpu["power_w"], gpu["power_max_w"], gpu["power_limit_w"]) == (650.0, 650.0, 700.0)
    assert gpu["temperature_max_c"] == 71
    assert gpu["throttled_by"] == ["power cap"]


@pytest.mark.more
def test_matmul_tells_its_rate_and_hold_has_none(cards: World, fallow: Fallow) -> None:
    works = burned(fallow, "--gpus", "0", "--load", "matmul", "--for", "500ms")[0]
    assert works["flop_per_s"] > 0
    assert works["memory_bytes_per_s"] > 0
    protections = burned(fallow, "--gpus", "0", "--for", "100ms")[0]
    assert protections["flop_per_s"] is None
    assert protections["unknown"]["flop_per_s"] == "this load does none"


def test_every_field_of_the_json_is_documented(cards: World, fallow: Fallow) -> None:
    done = json.loads(fallow("burn", "--gpus", "0", "--for", "100ms", "--json").stdout)
    text = (REPOSITORY / "docs" / "reference" / "json.md").read_text().partition("fallow burn")[2]
    assert [name for name in (*done, *done["gpus"][0]) if f"`{name}`" not in text] == []


def progress(fallow: Fallow, columns: int, *words: str, **variables: str) -> str:
    """What stderr shows on a terminal so wide."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    line, environ = ["fallow", *words], {**fallow.environ, **variables}
    with subprocess.Popen(line, env=environ, stdout=subprocess.PIPE, stderr=theirs, text=True) as job:
        out, _ = job.communicate(timeout=LIMIT_S)
    os.write(theirs, b".")  # so that there is something to read
    shown = os.read(ours, 65536).decode()
    os.close(theirs)
    os.close(ours)
    assert "\r" not in out
    return shown.removesuffix(".")


@pytest.mark.more
def test_progress_is_one_line_and_only_on_a_terminal(cards: World, fallow: Fallow) -> None:
    words = ["burn", "--gpus", "0", "--memory", "64MiB", "--for", "1500ms"]
    shown = progress(fallow, 80, *words, TERM="xterm")
    assert "GPU 0: 64.0 MiB 83 of 700 W 30 °C" in shown
    assert "\n" not in shown
    assert fallow(*words).stderr == ""


@pytest.mark.more
def test_a_terminal_that_overwrites_nothing_shows_no_progress(simulated: Fallow) -> None:
    assert progress(simulated, 80, "burn", "--for", "500ms", TERM="dumb") == ""


@pytest.mark.parametrize("words", [("--memory", "0"), ("--memory", "much"), ("--load", "fast"), ("--for", "soon")])
def test_wrong_words_are_a_sentence(cards: World, fallow: Fallow, words: tuple[str, str]) -> None:
    done = fallow("burn", *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_load_is_answered_with_those_that_there_are(cards: World, fallow: Fallow) -> None:
    said = fallow("burn", "--load", "foo").stderr
    assert [word for word in ("foo", "memory", "warm", "matmul") if word not in said] == []


@pytest.mark.parametrize(
    ("memory", "missing"), [("100GiB", "20.0 GiB of the 100 GiB"), ("100000GiB", "97.6 TiB of the 97.7 TiB")]
)
@pytest.mark.more
def test_a_simulated_card_has_no_more_memory_than_a_real_one(simulated: Fallow, memory: str, missing: str) -> None:
    done = simulated("burn", "--gpus", "0", "--memory", memory)
    assert done.returncode == 75
    assert f"GPU 0: out of memory: {missing} that were asked for are missing" in done.stderr


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
def test_within_a_claim_of_its_own_it_loads_what_was_claimed(simulated: Fallow) -> None:
    done = simulated("run", "--gpus", "2", "--", "fallow", "burn", "--for", "10ms", "--json")
    assert done.returncode == 0, done.stderr
    assert [gpu["index"] for gpu in json.loads(done.stdout)["gpus"]] == [2]


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


def test_a_simulated_load_dies_with_its_parent(simulated: Fallow) -> None:
    job = simulated.start("burn", "--gpus", "1")
    handle = os.pidfd_open(first_child(job))
    job.kill()
    assert select.select([handle], [], [], LIMIT_S)[0]
    os.close(handle)


def test_burning_loads_no_tables_before_they_are_needed(cards: World, fallow: Fallow) -> None:
    program = (
        "import sys\nfrom fallow.interfaces.cli.main import main\n"
        "assert main(['burn', '--gpus', '0', '--for', '10ms', '--json']) == 0\n"
        "assert 'rich' not in sys.modules and 'cuda' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=fallow.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
