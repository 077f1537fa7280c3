"""`fallow doctor` finds what is broken, tells it from what is only lacking, and is stopped by neither."""

import json
import os
import pathlib
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fallow import __version__
from fallow.core.errors import FallowError
from fallow.engine.doctor.finding import CheckFinding, Health, ok
from fallow.engine.doctor.run_checks import examine
from fallow.engine.history.journal import Journal
from fallow.engine.machine.world import World as OurWorld
from tests.actuators.claims.test_users import ADA, BOB, Users
from tests.conftest import Fallow
from tests.interfaces.socket.conftest import daemon, start_daemon  # noqa: F401  fixtures
from tests.places import BIN, LIMIT_S
from tests.standin import World
from tests.waiting import PROGRAM_S, until

pytestmark = pytest.mark.usefixtures("calm")
Checks = dict[str, dict[str, Any]]


@pytest.fixture
def calm(fallow: Fallow) -> None:
    """Commands of the system answer as they do; the folders are the test's own, and as they should be."""
    claims = pathlib.Path(fallow.environ["FALLOW_CLAIM_DIR"])
    claims.mkdir()
    claims.chmod(0o1777)


def examined(fallow: Fallow, code: int, **variables: str) -> Checks:
    done = fallow("doctor", "--json", **variables)
    assert done.returncode == code, done.stdout + done.stderr
    return {each["part"]: each for each in json.loads(done.stdout)["checks"]}


def states(checks: Checks, state: str) -> set[str]:
    return {part for part, each in checks.items() if each["state"] == state}


@pytest.mark.as_root
def test_a_machine_that_is_well_has_nothing_broken(world: World, fallow: Fallow) -> None:
    checks = examined(fallow, 0)
    assert states(checks, "broken") == set()
    assert {"driver", "CUDA", "GPUs", "process lists", "claims", "state", "config"} <= states(checks, "ok")
    assert "version " in checks["driver"]["means"]
    assert checks["GPUs"]["means"] == "8 GPUs, all answer"
    assert {"daemon", "service"} <= states(checks, "lacking")
    assert all(each["remedy"] for part, each in checks.items() if each["state"] == "lacking")


def test_the_table_says_the_same_in_words(simulated: Fallow) -> None:
    done = simulated("doctor")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["part", "state"]
    assert any(line.split()[:2] == ["driver", "ok"] and "4xH100 is simulated" in line for line in lines)
    assert lines[-1].endswith("0 broken")


def test_without_a_driver_that_is_broken_and_the_rest_is_examined(driverless: Fallow) -> None:
    checks = examined(driverless, 1)
    assert states(checks, "broken") == {"driver"}
    assert "libnvidia-ml.so.1 is not found" in checks["driver"]["means"]
    assert "--simulate" in checks["driver"]["remedy"]


def test_a_lost_card_is_broken_and_named(world: World, fallow: Fallow) -> None:
    world.fault("*", card=2, error=15)
    checks = examined(fallow, 1)
    assert states(checks, "broken") == {"GPUs"}
    assert "GPU 2: the GPU is lost" in checks["GPUs"]["means"]


def test_process_lists_that_the_driver_keeps_to_itself_are_broken(world: World, fallow: Fallow) -> None:
    for name in ("Compute", "Graphics"):
        world.fault(f"nvmlDeviceGet{name}RunningProcesses", error=4)
    checks = examined(fallow, 1)
    assert "process lists" in states(checks, "broken")
    assert "never picked" in checks["process lists"]["means"]


def test_device_files_that_are_not_there_are_lacking(world: World, fallow: Fallow, tmp_path: pathlib.Path) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    assert "device files" in states(examined(fallow, 0, FALLOW_DEVICES=str(devices)), "lacking")
    for minor in range(8):
        (devices / f"nvidia{minor}").touch()
    assert "device files" in states(examined(fallow, 0, FALLOW_DEVICES=str(devices)), "ok")


@pytest.mark.parametrize(("mode", "state"), [(0o1777, "ok"), (0o777, "broken"), (0o755, "broken")])
@pytest.mark.as_root
def test_the_claim_folder_is_open_to_all_and_sticky(simulated: Fallow, mode: int, state: str) -> None:
    os.chmod(simulated.environ["FALLOW_CLAIM_DIR"], mode)
    checks = examined(simulated, int(state == "broken"))
    assert checks["claims"]["state"] == state
    assert state == "ok" or "chmod 1777" in checks["claims"]["remedy"]


@pytest.mark.as_root
def test_a_claim_folder_of_a_user_is_lacking(simulated: Fallow) -> None:
    os.chown(simulated.environ["FALLOW_CLAIM_DIR"], ADA, ADA)
    assert examined(simulated, 0)["claims"]["state"] == "lacking"


def test_nothing_is_made_by_looking(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"]).rmdir()
    checks = examined(simulated, 0)
    assert "made when it is first needed" in checks["claims"]["means"]
    assert [path.name for path in tmp_path.iterdir()] == ["terminals"], "as it was before"


def test_a_state_folder_that_others_may_write_to_is_broken(simulated: Fallow) -> None:
    state = simulated.state
    state.mkdir(parents=True)
    state.chmod(0o777)
    assert states(examined(simulated, 1), "broken") == {"state"}
    state.rmdir()
    state.write_text("no folder")
    assert "state" in states(examined(simulated, 1), "broken")


@pytest.mark.parametrize("name", ["journal", "history"])
def test_a_damaged_file_is_broken_and_a_whole_one_is_ok(simulated: Fallow, name: str) -> None:
    state = simulated.state
    state.mkdir(parents=True)
    Journal(str(state), time.time, print).close()
    assert examined(simulated, 0)["journal"]["means"].endswith("is intact")
    file = state / f"{name}.db"
    for each in state.iterdir():
        each.unlink()
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, text TEXT)")
        database.executemany("INSERT INTO event (text) VALUES (?)", [("x" * 500,) for _ in range(200)])
    database.close()
    content = bytearray(file.read_bytes())
    content[4096:40960] = os.urandom(36864)
    file.write_bytes(content)
    checks = examined(simulated, 1)
    assert states(checks, "broken") == {name}
    assert "damaged" in checks[name]["means"]


def test_a_config_with_mistakes_is_broken(simulated: Fallow, open_folder: pathlib.Path) -> None:
    file = open_folder / "fallow.toml"
    file.write_text("[machine]\nnonsense = 1\n")
    checks = examined(simulated, 1, FALLOW_CONFIG=str(file))
    assert states(checks, "broken") == {"config"}
    assert f"fallow check {file}" == checks["config"]["remedy"]
    file.write_text("")
    assert examined(simulated, 0, FALLOW_CONFIG=str(file))["config"]["state"] == "ok"


def test_the_config_of_the_daemon_that_runs_is_told(simulated: Fallow) -> None:
    simulated.up("[page]\nenabled = false\n").until("up, ")

    def daemon_told() -> str:
        checks = json.loads(simulated("doctor", "--json").stdout)["checks"]
        return "".join(each["means"] for each in checks if each["part"] == "daemon")

    told = until(daemon_told, lambda told: "has not read the GPUs yet" not in told, pause_s=PROGRAM_S)
    assert f", with {simulated.home}/fallow.toml, up for" in told
    assert f"; the daemon that runs has {simulated.home}/fallow.toml" in examined(simulated, 0)["config"]["means"]


def test_a_daemon_that_lives_is_ok_and_one_that_died_is_broken(
    simulated: Fallow,
    daemon: subprocess.Popen[str],  # noqa: F811  the fixture
) -> None:
    lives = examined(simulated, 0)["daemon"]
    assert lives["state"] == "ok"
    assert ", without a config, up for" in lives["means"]
    assert "uses 4xH100" in examined(simulated, 0, FALLOW_SIMULATE="2xT4")["daemon"]["means"]
    daemon.kill()
    daemon.wait(LIMIT_S)
    checks = examined(simulated, 1)
    assert states(checks, "broken") == {"daemon"}
    assert "nobody listens" in checks["daemon"]["means"]


@pytest.fixture
def never() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_check_that_fails_or_hangs_is_a_finding_and_stops_no_other(never: threading.Event) -> None:
    def fails(_: OurWorld) -> list[CheckFinding]:
        raise FallowError("no such luck")

    def hangs(_: OurWorld) -> list[CheckFinding]:
        never.wait(LIMIT_S)
        return []

    def works(_: OurWorld) -> list[CheckFinding]:
        return [ok("works", "as it should")]

    world = OurWorld({}, simulate="1xT4")
    found = examine(world, {"fails": fails, "hangs": hangs, "works": works}, limit_s=0.2)
    assert [each.health for each in found] == [Health.BROKEN, Health.BROKEN, Health.OK]
    assert "FallowError: no such luck" in found[0].means
    assert "no answer within 0.2 s" in found[1].means


@pytest.mark.as_root
def test_a_user_learns_what_only_root_can_do(open_folder: pathlib.Path) -> None:
    users = Users(open_folder)
    state = open_folder / "state"
    state.mkdir(parents=True)
    state.chmod(0o700)
    users.environ["FALLOW_STATE_DIR"] = str(state)
    (open_folder / "claims").mkdir()
    (open_folder / "claims").chmod(0o1777)
    code, out, _ = users.run(BOB, "doctor", "--json")
    checks = {each["part"]: each for each in json.loads(out)["checks"]}
    assert code == 1
    assert states(checks, "broken") == {"state", "journal", "history"}
    assert {"open files", "signals", "shutdown", "reboot"} <= states(checks, "lacking")
    assert "SYS_PTRACE" in checks["open files"]["remedy"]


@pytest.mark.as_root
def test_folders_that_a_user_cannot_make_are_told_with_what_makes_them_usable(open_folder: pathlib.Path) -> None:
    """Root's mkdir would make a state folder that is root's, and a claim folder that is shut to all others."""
    users = Users(open_folder)
    shut = open_folder / "of root"
    shut.mkdir()
    shut.chmod(0o755)
    users.environ |= {"FALLOW_STATE_DIR": str(shut / "state"), "FALLOW_CLAIM_DIR": str(shut / "claims")}
    checks = {each["part"]: each for each in json.loads(users.run(BOB, "doctor", "--json")[1])["checks"]}
    assert checks["state"]["remedy"] == "set FALLOW_STATE_DIR to a folder of yours"
    assert f"'{shut}' cannot be written" in checks["state"]["means"]
    command = checks["claims"]["remedy"].removeprefix("as root: ")
    subprocess.run(["sh", "-c", command], check=True, timeout=LIMIT_S)
    checks = {each["part"]: each for each in json.loads(users.run(BOB, "doctor", "--json")[1])["checks"]}
    assert checks["claims"]["state"] == "ok", checks["claims"]


def test_it_says_which_version_this_is_and_that_it_is_the_one_on_the_path(simulated: Fallow) -> None:
    found = examined(simulated, 0)
    assert f"{__version__} with Python " in found["fallow"]["means"]
    assert found["command"]["state"] == "ok"


def test_another_one_that_is_first_on_the_path_is_named(simulated: Fallow, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "bin" / "fallow"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    (tmp_path / "ours").mkdir()
    ours = tmp_path / "ours" / "start"
    ours.symlink_to(BIN / "fallow")
    process = simulated.start_other(str(ours), "doctor", "--json", PATH=f"{other.parent}:{BIN}:/usr/bin:/bin")
    found = {each["part"]: each for each in json.loads(process.communicate(timeout=LIMIT_S)[0])["checks"]}
    assert found["command"]["state"] == "lacking"
    assert str(other) in found["command"]["means"]
    assert str(BIN) in found["command"]["remedy"]
