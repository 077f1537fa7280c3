"""`fallow guard` acts once, when it should, and never when it should not."""

import os
import pathlib
import signal
import subprocess

import pytest

from tests import waiting
from tests.conftest import Fallow
from tests.harness import cli
from tests.places import LIMIT_S
from tests.standin import Process, World
from tests.waiting import end_group

FAST = ("--arm-for", "1s", "--idle-for", "1s", "--countdown", "1s")


@pytest.fixture
def systemctl(fallow: Fallow, tmp_path: pathlib.Path) -> pathlib.Path:
    """A stand-in that writes down what it is told; the file of its words."""
    folder = tmp_path / "sbin"
    folder.mkdir()
    log = tmp_path / "systemctl.log"
    for name in ("systemctl", "wall", "shutdown"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "{name} $*$(cat)" >> {log}\n')
        program.chmod(0o755)
    fallow.environ["PATH"] = f"{folder}:{fallow.environ['PATH']}"
    log.touch()
    return log


def work(world: World, *cards: int) -> None:
    for card in cards:
        world[card].utilization = 90
        world[card].compute, world[card].memory_used = [Process(os.getpid(), 2**30)], 2**30
        world[card].gpm = {2: 90.0, 3: 50.0, 5: 80.0, 10: 20.0, 20: 0.0, 21: 0.0}


def rest(world: World, *cards: int) -> None:
    for card in cards:
        world[card].utilization, world[card].compute, world[card].memory_used = 0, [], 0
        world[card].gpm = dict.fromkeys((2, 3, 5, 10, 20, 21), 0.0)


def until(guard: subprocess.Popen[str], words: str) -> str:
    """Read what the guard says until it says this."""
    assert guard.stderr is not None
    for line in guard.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}")


@pytest.mark.as_root
def test_it_arms_on_work_and_turns_the_machine_off_once_when_it_ends(
    world: World, fallow: Fallow, systemctl: pathlib.Path
) -> None:
    work(world, 3)
    guard = fallow.start("guard", *FAST, "--action", "shutdown")
    until(guard, "armed")
    rest(world, 3)
    until(guard, "about to turn the machine off in 1s. To prevent it: fallow protect")
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0
    told = systemctl.read_text().splitlines()
    assert [line for line in told if line.startswith("systemctl")] == ["systemctl poweroff"]
    assert any(line.startswith("wall fallow: the GPUs have been quiet") for line in told), (
        "people at terminals saw it"
    )


@pytest.mark.as_root
def test_with_simulated_gpus_the_real_machine_stays_on(simulated: Fallow, systemctl: pathlib.Path) -> None:
    guard = simulated.start("guard", *FAST, "--action", "shutdown")
    until(guard, "guarding")
    job = simulated.start_other("sh", "-c", "while :; do :; done", CUDA_VISIBLE_DEVICES="0")
    until(guard, "armed")
    end_group(job)
    until(guard, "would ")
    until(guard, "(not done: the GPUs are simulated)")
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0
    assert systemctl.read_text() == ""


def test_a_dry_run_does_everything_but_the_deed(world: World, fallow: Fallow, systemctl: pathlib.Path) -> None:
    work(world, 0)
    guard = fallow.start("guard", *FAST, "--dry-run", "--action", "shutdown")
    until(guard, "armed")
    rest(world, 0)
    until(guard, "would turn the machine off in 1s")
    _, said = guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0
    assert "would turn the machine off: " in said
    assert "about to" not in said
    assert systemctl.read_text() == ""


@pytest.mark.as_root
def test_who_may_not_turn_the_machine_off_is_told_when_it_starts(open_folder: pathlib.Path) -> None:
    from tests.actuators.claims.test_users import ADA, Users

    users = Users(open_folder)
    open_folder.chmod(0o1777)
    stand_in = open_folder / "systemctl"
    stand_in.write_text("#!/bin/sh\nexit 1\n")
    stand_in.chmod(0o755)
    users.environ["PATH"] = str(open_folder)
    code, _, err = users.run(ADA, "guard", "--action", "shutdown")
    assert code == 77
    assert "not permitted to turn the machine off" in err


@pytest.mark.as_root
def test_somebody_else_s_process_cannot_be_attached_to(open_folder: pathlib.Path) -> None:
    from tests.actuators.claims.test_users import ADA, BOB, Users

    open_folder.chmod(0o1777)
    users = Users(open_folder)
    users.environ["FALLOW_STATE_DIR"] = str(open_folder / "state")
    with subprocess.Popen(["sleep", "600"], user=BOB, group=BOB, extra_groups=[]) as named:
        code, _, err = users.run(ADA, "guard", "--attach", str(named.pid), "--action", "signal")
        named.kill()
    assert code == 77
    assert f"pid {named.pid} is {BOB}'s, and signalling it needs root" in err


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_guard_that_is_ended_in_its_countdown_calls_it_off(
    world: World, fallow: Fallow, systemctl: pathlib.Path, number: signal.Signals
) -> None:
    work(world, 0)
    guard = fallow.start("guard", *FAST, "--countdown", "1h", "--action", "shutdown")
    until(guard, "armed")
    rest(world, 0)
    until(guard, "about to turn the machine off")
    guard.send_signal(number)
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == -number
    waiting.until(lambda: "called off" in systemctl.read_text())
    assert "systemctl poweroff" not in systemctl.read_text()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--action", "signal"), 2, "--attach PID"),
        (("--action", "dance"), 2, "is not an action"),
        (("--unless", "rain"), 2, "is not a condition"),
        (("--attach", "4000000", "--action", "signal"), 2, "no process 4000000"),
        (("--attach", "1", "--action", "signal"), 77, "never signals pid 1"),
        (
            ("--idle-below", "11"),
            2,
            "what arms the guard would also be quiet to it; at most --arm-above",
        ),
        (("--action", "reboot", "--action", "run:true"), 2, "nothing can follow when the machine is down"),
    ],
)
def test_wrong_words_are_answered_at_once(simulated: Fallow, words: tuple[str, ...], code: int, says: str) -> None:
    done = cli("guard", *words, environ=simulated.environ)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
