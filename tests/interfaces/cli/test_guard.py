"""`fallow guard` acts once, when it should, and never when it should not."""

import os
import pathlib
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import Process, World
from tests.waiting import end_group

FAST = ("--every", "0.1s", "--arm-for", "0.3s", "--idle-for", "0.6s", "--countdown", "0.3s")


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
    until(guard, "about to turn the machine off in 0.3s. To prevent it: fallow protect")
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0
    told = systemctl.read_text().splitlines()
    assert [line for line in told if line.startswith("systemctl")] == ["systemctl poweroff"]
    assert any(line.startswith("wall fallow: the GPUs have been quiet") for line in told), (
        "people at terminals saw it"
    )


@pytest.mark.as_root
@pytest.mark.parametrize("action", ["shutdown", "reboot"])
def test_with_simulated_gpus_the_real_machine_stays_on(
    simulated: Fallow, systemctl: pathlib.Path, action: str
) -> None:
    guard = simulated.start("guard", *FAST, "--action", action)
    until(guard, "guarding")
    job = simulated.start_other("sh", "-c", "while :; do :; done", CUDA_VISIBLE_DEVICES="0")
    until(guard, "armed")
    end_group(job)
    until(guard, "would ")
    until(guard, "(not done: the GPUs are simulated)")
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0
    assert systemctl.read_text() == ""


@pytest.mark.as_root
def test_a_driver_that_stops_answering_is_not_quiet(world: World, fallow: Fallow, systemctl: pathlib.Path) -> None:
    work(world, 0)
    fallow.environ["FALLOW_DRIVER_TIMEOUT"] = "0.05"
    guard = fallow.start("guard", *FAST, "--action", "shutdown")
    until(guard, "armed")
    world.fault("*", card=0, error=999)
    rest(world, 0)
    looked = world.calls("nvmlDeviceGetUtilizationRates")
    while world.calls("nvmlDeviceGetUtilizationRates") < looked + 30 * (len(world) - 1):
        time.sleep(0.01)
    assert guard.poll() is None
    assert systemctl.read_text() == ""
    world.heal()
    guard.communicate(timeout=LIMIT_S)
    assert "systemctl poweroff" in systemctl.read_text()


@pytest.mark.as_root
def test_a_hold_stops_the_countdown(world: World, fallow: Fallow, systemctl: pathlib.Path) -> None:
    work(world, 0)
    guard = fallow.start("guard", *FAST, "--countdown", "1h", "--action", "reboot")
    until(guard, "armed")
    rest(world, 0)
    until(guard, "about to restart the machine")
    assert fallow("protect", "0", "--for", "1h", "--why", "not yet").returncode == 0
    assert "not yet" in until(guard, "called off")
    assert "systemctl" not in systemctl.read_text()
    assert "called off" in systemctl.read_text(), "whoever saw the announcement is told"


@pytest.mark.as_root
def test_a_guard_that_a_hold_keeps_from_acting_says_so_once_and_in_why(
    world: World, fallow: Fallow, systemctl: pathlib.Path
) -> None:
    assert fallow("protect", "5", "--for", "1h", "--why", "not yet").returncode == 0
    work(world, 0)
    guard = fallow.start("guard", *FAST, "--gpus", "0-1", "--action", "shutdown")
    until(guard, "armed: ")
    rest(world, 0)
    said = until(guard, "does nothing while this lasts: ")
    assert "not yet" in said
    assert "refusal: guard: turn the machine off: " in (told := fallow("why").stdout), told
    assert "not yet" in told
    looked = world.calls("nvmlDeviceGetUtilizationRates")
    while world.calls("nvmlDeviceGetUtilizationRates") < looked + 20:
        time.sleep(0.01)
    guard.terminate()
    assert "while this lasts" not in guard.communicate(timeout=LIMIT_S)[1]
    assert "systemctl" not in systemctl.read_text()


def test_deeds_are_done_in_order_and_one_that_fails_is_tried_again_and_told(
    world: World, fallow: Fallow, systemctl: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "deeds"
    work(world, 0)
    first, second = f"run:echo first >> {log}; exit 3", f"run:echo second >> {log}"
    guard = fallow.start("guard", *FAST, "--action", first, "--action", second)
    until(guard, "armed")
    rest(world, 0)
    said = until(guard, "failed to run")
    assert "ended with exit code 3" in said
    assert "again in 10s" in said
    assert log.read_text() == "first\n", "a command is tried again before what follows it"
    guard.kill()


def test_the_default_is_to_end_so_that_a_script_goes_on(world: World, fallow: Fallow) -> None:
    work(world, 0)
    guard = fallow.start("guard", *FAST)
    until(guard, "armed")
    rest(world, 0)
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0


def test_a_dry_run_does_everything_but_the_deed(world: World, fallow: Fallow, systemctl: pathlib.Path) -> None:
    work(world, 0)
    guard = fallow.start("guard", *FAST, "--dry-run", "--action", "shutdown")
    until(guard, "armed")
    rest(world, 0)
    until(guard, "would turn the machine off in 0.3s")
    _, said = guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0
    assert "would turn the machine off: " in said
    assert "about to" not in said
    assert systemctl.read_text() == ""


def test_it_signals_the_process_that_was_named_and_nobody_else(
    world: World, fallow: Fallow, start_sleeper: Callable[[], subprocess.Popen[bytes]]
) -> None:
    named, other = start_sleeper(), start_sleeper()
    work(world, 0)
    guard = fallow.start("guard", *FAST, "--attach", str(named.pid), "--action", "signal:INT")
    until(guard, "armed")
    rest(world, 0)
    guard.communicate(timeout=LIMIT_S)
    assert named.wait(LIMIT_S) == -2
    assert other.poll() is None


@pytest.fixture
def start_sleeper():  # noqa: ANN201
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "600"]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait(LIMIT_S)


@pytest.mark.as_root
def test_a_process_that_runs_speaks_against_it(
    world: World, fallow: Fallow, systemctl: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    name = f"sleeper-{os.getpid()}"
    (tmp_path / name).symlink_to("/bin/sleep")
    with subprocess.Popen([tmp_path / name, "600"]) as sleeper:
        work(world, 0)
        guard = fallow.start("guard", *FAST, "--unless", f"process:{name}", "--action", "shutdown")
        until(guard, "armed")
        rest(world, 0)
        looked = world.calls("nvmlDeviceGetUtilizationRates")
        while world.calls("nvmlDeviceGetUtilizationRates") < looked + 20 * len(world):
            time.sleep(0.01)
        assert systemctl.read_text() == ""
        sleeper.kill()
    guard.communicate(timeout=LIMIT_S)
    assert "systemctl poweroff" in systemctl.read_text()


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


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--action", "signal"), 2, "--attach PID"),
        (("--action", "dance"), 2, "is not an action"),
        (("--unless", "rain"), 2, "is not a condition"),
        (("--attach", "4000000", "--action", "signal"), 2, "no process 4000000"),
        (("--attach", "1", "--action", "signal"), 77, "never signals pid 1"),
        (("--gpus", "9"), 2, "no GPU '9'"),
        (("--across", "some"), 2, "some"),
    ],
)
def test_wrong_words_are_answered_at_once(
    world: World, fallow: Fallow, words: tuple[str, ...], code: int, says: str
) -> None:
    done = fallow("guard", *words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr


@pytest.mark.parametrize(
    ("words", "says", "config"),
    [
        (
            ("--arm-above", "1", "--idle-below", "99", "--action", "shutdown"),
            "--idle-below 99: what arms the guard would also be quiet to it; at most --arm-above, which is 1",
            'arm_above = 1\nidle_below = 99\naction = "shutdown"\n',
        ),
        (
            ("--idle-below", "11"),
            "--idle-below 11: what arms the guard would also be quiet to it; at most --arm-above, which is 10",
            'idle_below = 11\naction = "shutdown"\n',
        ),
        (
            ("--action", "reboot", "--action", "run:true"),
            "--action reboot: nothing can follow when the machine is down; put it last",
            'action = ["reboot", "run:true"]\n',
        ),
    ],
)
def test_what_the_config_refuses_of_a_guard_the_command_refuses_in_the_same_words(
    world: World,
    fallow: Fallow,
    systemctl: pathlib.Path,
    tmp_path: pathlib.Path,
    words: tuple[str, ...],
    says: str,
    config: str,
) -> None:
    work(world, 3)
    refused = fallow("guard", *FAST, *words)
    assert (refused.returncode, says in refused.stderr) == (2, True), refused.stderr
    file = tmp_path / "its.toml"
    file.write_text(f'[[guard]]\nname = "g"\n{config}')
    checked = fallow("check", str(file))
    sentence = says.partition(": ")[2].partition(";")[0]
    assert (checked.returncode, sentence in checked.stdout + checked.stderr) == (78, True), checked
    assert systemctl.read_text() == ""
