"""`fallow fill` on simulated GPUs, with real processes: all states and their arrows, and nothing left over."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, pids_written, until_there, wait_for_end, wait_for_lines
from tests.places import LIMIT_S

StartFill = Callable[..., Fill]


@pytest.fixture
def fill(simulated: Fallow) -> StartFill:
    """Start `fallow fill` with options and a command."""
    return lambda *words, **variables: Fill(simulated.start("fill", *words, **variables))


@pytest.fixture
def newcomer(simulated: Fallow) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Somebody who comes to a simulated GPU."""
    came: list[subprocess.Popen[bytes]] = []

    def come(gpu: str, *command: str) -> subprocess.Popen[bytes]:
        came.append(subprocess.Popen(command or ["sleep", "1000"], env=simulated.on(gpu)))
        return came[-1]

    yield come
    for process in came:
        process.kill()
        process.wait(LIMIT_S)


def test_a_filler_comes_leaves_for_a_newcomer_and_comes_back(fill: StartFill, newcomer: Callable) -> None:
    running = fill("--gpus", "0", "--idle-for", "0.5s", "--", "sleep", "1000")
    running.until("GPU 0: filling it: nobody there for")
    somebody = newcomer("0")
    assert f"GPU 0: giving it back: pid {somebody.pid} of " in running.until("giving it back")
    running.until("GPU 0: given back after")
    somebody.kill()
    somebody.wait(LIMIT_S)
    running.until("GPU 0: filling it")


def test_a_filler_started_through_a_shell_is_known_as_its_own_and_goes_whole(
    fill: StartFill, newcomer: Callable, tmp_path: pathlib.Path
) -> None:
    pids = tmp_path / "pids"
    script = (
        f"sleep 1000 & echo $! >> {pids}; setsid sleep 1000 & echo $! >> {pids}; "
        f"(setsid sh -c 'echo $$ >> {pids}; sleep 1000' &) ; echo $$ >> {pids}; wait"
    )
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sh", "-c", script)
    running.until("filling it")
    wait_for_lines(pids, 4)
    newcomer("0")
    running.until("given back after")
    wait_for_end(pids_written(pids))
    assert len(running.told("giving it back")) == 1


def test_whoever_does_not_listen_is_killed_after_the_grace(
    fill: StartFill, newcomer: Callable, tmp_path: pathlib.Path
) -> None:
    pids = tmp_path / "pids"
    deaf = f"trap '' TERM; echo $$ >> {pids}; while :; do sleep 1000; done"
    running = fill("--gpus", "0", "--idle-for", "0", "--grace", "0.3s", "--", "sh", "-c", deaf)
    wait_for_lines(pids, 1)
    newcomer("0")
    running.until("given back after")
    wait_for_end(pids_written(pids))


def test_a_filler_that_cannot_be_suspended_here_is_asked_and_can_save_its_work(
    fill: StartFill, newcomer: Callable, tmp_path: pathlib.Path
) -> None:
    begun, saved = tmp_path / "begun", tmp_path / "saved"
    saves = f"trap 'echo saved > {saved}; exit' TERM; echo begun > {begun}; while :; do sleep 0.05; done"
    running = fill("--gpus", "0", "--idle-for", "0", "--yield", "suspend", "--", "sh", "-c", saves)
    running.until("so it will be asked to end and not suspended")
    wait_for_lines(begun, 1)
    newcomer("0")
    assert running.until("GPU 0: given back after").endswith("it is gone")
    assert saved.read_text() == "saved\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_fillers_die_with_fallow_however_it_dies(
    fill: StartFill, tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo $! >> {pids}; (setsid sleep 1000 & echo $! >> {pids}); echo $$ >> {pids}; wait"
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sh", "-c", script)
    wait_for_lines(pids, 3)
    os.kill(running.process.pid, number)
    wait_for_end(pids_written(pids))
    assert running.process.wait(LIMIT_S) == -number


def test_the_filler_goes_with_its_keeper_and_a_new_one_comes(fill: StartFill, tmp_path: pathlib.Path) -> None:
    pids = tmp_path / "pids"
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sh", "-c", f"echo $$ $PPID >> {pids}; exec sleep 1000")
    wait_for_lines(pids, 1)
    first, keeper = pids_written(pids)
    os.kill(keeper, signal.SIGKILL)
    wait_for_end([first])
    running.until("the filler was killed together with its keeper")
    wait_for_lines(pids, 2)


def test_each_filler_has_its_gpu_and_a_session_is_niced_and_first_when_memory_runs_out(
    fill: StartFill, tmp_path: pathlib.Path
) -> None:
    facts = tmp_path / "facts"
    script = (
        'echo "{gpu} {uuid} $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $(nice) $(cat /proc/self/oom_score_adj)'
        f' $(ps -o sid= -p $$) $$" >> {facts}; sleep 1000'
    )
    fill("--gpus", "1,2", "--idle-for", "0", "--", "sh", "-c", script)
    lines = sorted(wait_for_lines(facts, 2))
    for index, line in zip((1, 2), lines, strict=True):
        label, uuid, visible, *how, session, pid = line.split()
        assert (label, visible, how) == (str(index), uuid, ["PCI_BUS_ID", "19", "1000"])
        assert uuid.endswith(str(index))
        assert session == pid


@pytest.mark.more
def test_an_ignored_program_may_stay(fill: StartFill, newcomer: Callable) -> None:
    """F22: it keeps no filler out and drives none away, and another beside it does."""
    ignored = newcomer("0")
    running = fill("--gpus", "0", "--idle-for", "0", "--ignore", "sleep", "--", "cat", "/dev/zero")
    running.until("filling it")
    other = newcomer("0", "tail", "-f", "/dev/null")
    gave_way = running.until("giving it back")
    assert f"pid {other.pid} " in gave_way
    assert running.told("giving it back") == [gave_way]
    running.until("given back after")
    other.kill()
    other.wait(LIMIT_S)
    running.until("filling it")
    assert ignored.poll() is None


def test_whoever_runs_on_a_filled_gpu_gets_it_when_the_filler_is_gone(
    fill: StartFill, simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    pids = tmp_path / "pids"
    slow = f"trap 'sleep 0.4; exit' TERM; echo $$ >> {pids}; while :; do sleep 0.05; done"
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sh", "-c", slow)
    wait_for_lines(pids, 1)
    (filler,) = pids_written(pids)
    done = simulated("run", "--gpus", "0", "--", "sh", "-c", f"test -e /proc/{filler} && echo there || echo gone")
    assert done.stdout == "gone\n", done.stderr
    assert "GPU 0: giving it back: GPU 0 is claimed by" in running.until("giving it back")


@pytest.mark.more
def test_status_says_that_a_card_is_filled(fill: StartFill, simulated: Fallow) -> None:
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sleep", "1000")
    running.until("filling it")
    until_there(running.process.pid, "sleep 1000")
    assert "a filler, which yields: sleep 1000" in simulated("status", "--long", "0").stdout
    filled, empty = json.loads(simulated("status", "0,1", "--json").stdout)["gpus"]
    assert (filled["filler"]["command"], empty["filler"]) == ("sleep 1000", None)


def test_whoever_picks_may_have_a_filled_gpu_and_the_filler_leaves(fill: StartFill, simulated: Fallow) -> None:
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sleep", "1000")
    running.until("filling it")
    assert simulated("pick", "--gpus", "0").stdout == "0\n"
    running.until("giving it back: somebody picked GPU 0 moments ago")


def test_two_who_fill_never_fill_the_same_card(fill: StartFill, tmp_path: pathlib.Path) -> None:
    facts = tmp_path / "facts"
    command = ("--gpus", "0", "--idle-for", "0", "--", "sh", "-c", f"echo x >> {facts}; sleep 1000")
    fill(*command).until("filling it")
    wait_for_lines(facts, 1)
    second = fill(*command)
    second.until("GPU 0: left alone")
    assert facts.read_text() == "x\n"


def test_output_is_appended_to_the_log(fill: StartFill, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "fill-0.log"
    log.write_text("before\n")
    (tmp_path / "elsewhere").mkdir()
    words = ("--gpus", "0", "--idle-for", "0", "--cwd", str(tmp_path / "elsewhere"), "--log")
    fill(*words, str(tmp_path / "fill-{gpu}.log"), "--", "sh", "-c", "pwd; echo oops >&2; sleep 1000")
    assert wait_for_lines(log, 3) == ["before", str(tmp_path / "elsewhere"), "oops"]


def test_a_dry_run_starts_nothing_and_says_what_it_would(
    fill: StartFill, newcomer: Callable, tmp_path: pathlib.Path
) -> None:
    facts = tmp_path / "facts"
    running = fill("--dry-run", "--gpus", "0", "--idle-for", "0", "--", "touch", str(facts))
    running.until("would fill 1 GPU")
    running.until("GPU 0: filling it")
    newcomer("0")
    running.until("GPU 0: given back")
    assert not facts.exists()


def test_outside_its_hours_nothing_is_filled(fill: StartFill) -> None:
    running = fill("--between", "00:00-00:01", "--gpus", "0", "--idle-for", "0", "--", "true", TZ="UTC-12:30")
    second = fill("--between", "00:01-00:00", "--gpus", "1", "--idle-for", "0", "--", "sleep", "1000", TZ="UTC-12:30")
    said = running.until("GPU 0: ") + second.until("GPU 1: ")
    assert "left alone: it is not between" in said
    assert "filling it" in said


def test_a_reader_who_stops_reading_stops_no_yield(
    simulated: Fallow, newcomer: Callable, tmp_path: pathlib.Path
) -> None:
    pids = tmp_path / "pids"
    ours, its = os.pipe()
    os.set_blocking(its, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(its, b"x" * 4096)  # as a terminal after Ctrl-S: whoever writes more, waits
    os.set_blocking(its, True)
    words = ["fallow", "fill", "--gpus", "0", "--idle-for", "0", "--log", "/dev/null", "--", "sh", "-c"]
    script = f"echo $$ >> {pids}; exec sleep 1000"
    with subprocess.Popen([*words, script], env=simulated.environ, stderr=its) as filling:
        os.close(its)
        wait_for_lines(pids, 1)
        newcomer("0")
        wait_for_end(pids_written(pids))
        filling.kill()
    os.close(ours)


def test_ctrl_z_does_not_stop_it(fill: StartFill, newcomer: Callable) -> None:
    running = fill("--gpus", "0", "--idle-for", "0", "--", "sleep", "1000")
    running.until("filling it")
    running.process.send_signal(signal.SIGTSTP)
    newcomer("0")
    running.until("given back after")


def test_a_log_that_cannot_be_written_is_told_at_the_start(simulated: Fallow) -> None:
    done = simulated("fill", "--log", "/no/such/fill.log", "--", "true")
    assert (done.returncode, "cannot be written" in done.stderr) == (126, True)


@pytest.mark.more
def test_a_keeper_that_does_not_answer_is_killed_with_its_filler(
    fill: StartFill, newcomer: Callable, tmp_path: pathlib.Path
) -> None:
    pids = tmp_path / "pids"
    script = f"kill -STOP $PPID; echo $$ $PPID >> {pids}; exec sleep 1000"
    running = fill("--gpus", "0", "--idle-for", "0", "--grace", "0", "--", "sh", "-c", script)
    wait_for_lines(pids, 1)
    newcomer("0")
    running.until("the filler's keeper does not answer, so both are killed")
    running.until("given back after")
    wait_for_end(pids_written(pids))


def test_burn_stays_for_a_second_without_its_memory_unless_a_launch_waits_for_its_end(
    fill: StartFill, newcomer: Callable, simulated: Fallow
) -> None:
    running = fill("--gpus", "0,1", "--idle-for", "0", "--grace", "20s", "--", "fallow", "burn")
    running.until("filling it", times=2)
    until_there(running.process.pid, "fallow.engine.burn.worker", times=2)
    newcomer("0")
    assert " ms:" not in running.until("GPU 0: given back after")
    assert simulated("run", "--gpus", "1", "--", "true").returncode == 0
    assert " ms:" in running.until("GPU 1: given back after")
