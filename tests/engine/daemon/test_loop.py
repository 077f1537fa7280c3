"""The daemon in driven time on the stand-in driver: it keeps what works, recovers, and leaks nothing."""

import getpass
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from fallow.engine.history.reader import open_history
from tests.conftest import Fallow
from tests.length import HOURS
from tests.places import ME, REPOSITORY
from tests.standin import Process, World
from tests.waiting import end

GIB = 2**30
FILLERS = """
[machine]
every = "{every}"

[terminals]
users = "ignore"

[[filler]]
name = "high"
user = "{me}"
command = {command}
priority = 5
gpus = "0"
idle_for = "20s"

[[filler]]
name = "low"
user = "{me}"
command = ["sleep", "1000"]
gpus = "0-1"
idle_for = "5s"

[[idle]]
name = "forgotten"
idle_for = "30m"

[[guard]]
name = "evening"
user = "{me}"
idle_for = "2h"
action = "run:true"
"""


class Resident:
    """The daemon, seen from the test."""

    def __init__(self, environ: dict[str, str], file: pathlib.Path, *words: str, limit_s: float = 2.0) -> None:
        self.told: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.daemon.daemon_resident", str(file), str(limit_s), *words],
            env={**environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hear()

    def __call__(self, what: str, **more: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self._process.stdin.flush()
        return self._hear()

    def until(self, done: Callable[[dict[str, Any]], bool], most: int = 20_000) -> dict[str, Any]:
        """Tick until the board shows what is awaited."""
        for _ in range(most):
            self("tick")
            seen: dict[str, Any] = self("see")
            if done(seen):
                return seen
        raise AssertionError(f"it never came; the last was {self('see')}, told: {self.told}")

    def said(self, words: str) -> bool:
        return any(words in sentence for sentence in self.told)

    def leave(self) -> None:
        end(self._process)

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        heard = json.loads(self._process.stdout.readline())
        self.told += heard["told"]
        return heard["answer"]


@pytest.fixture
def config(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "fallow.toml"
    file.write_text(FILLERS.format(me=ME, every="1s", command='["sleep", "1000"]'))
    file.chmod(0o600)
    return file


@pytest.fixture
def up(fallow: Fallow, config: pathlib.Path) -> Iterator[Callable[..., Resident]]:
    """Start a daemon on the world that the test has made."""
    made: list[Resident] = []

    def start(*words: str, limit_s: float = 2.0) -> Resident:
        made.append(Resident(fallow.environ, config, *words, limit_s=limit_s))
        return made[-1]

    yield start
    for resident in made:
        resident.leave()


def phases(seen: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(name, ",".join(gpus)): phase for name, gpus, phase, _ in seen["fillers"]}


def pids(seen: dict[str, Any]) -> dict[tuple[str, str], int | None]:
    return {(name, ",".join(gpus)): pid for name, gpus, _, pid in seen["fillers"]}


SETTLED = {("high", "0"): "filled", ("low", "0"): "quiet", ("low", "1"): "filled"}


def is_settled(seen: dict[str, Any]) -> bool:
    return phases(seen) == SETTLED and None not in (pids(seen)["high", "0"], pids(seen)["low", "1"])


def test_all_that_changes_is_on_the_board(world: World, up: Callable[..., Resident]) -> None:
    daemon = up()
    seen = daemon.until(is_settled)
    assert seen["activities"] == ["free"] * 8
    assert seen["guards"] == [["evening", "idle"]]
    assert ["start", "done", 3] in seen["actions"]
    assert seen["yields"] == {"low": 1}
    ticks = 50
    before = daemon("see")["seconds"]
    daemon("tick", ticks=ticks)
    assert daemon("see")["seconds"] - before == pytest.approx(8 * ticks)


def test_a_job_that_pauses_is_busy_and_one_that_stops_is_idle_from_then_on(
    world: World, up: Callable[..., Resident], config: pathlib.Path
) -> None:
    """The counters have what was reported, so that each stretch of idleness is 12 s short."""
    config.write_text("[machine]\nevery = '1s'\n[terminals]\nusers = 'ignore'\n")
    daemon = up()
    user = getpass.getuser()
    world[0].compute = [Process(os.getpid(), 2 * 2**30)]
    world[0].memory_used = 2 * 2**30
    words = set()
    for tick in range(45):
        world[0].utilization = 50 if tick % 3 == 0 else 0
        daemon("tick")
        words.add(daemon("see")["activities"][0])
    assert words == {"busy"}
    world[0].utilization = 0
    daemon("tick", ticks=30)
    seen = daemon("see")
    assert seen["activities"][0] == "idle"
    assert daemon("reload") is True
    daemon("tick")
    assert daemon("see")["for_s"][0] == pytest.approx(33.0), "a reload forgets nothing"
    assert seen["spent"] == {f"busy {user}": pytest.approx(53.0), f"idle {user}": pytest.approx(21.0)}


def test_a_reload_ends_only_what_has_changed(world: World, up: Callable[..., Resident], config: pathlib.Path) -> None:
    daemon = up()
    before = pids(daemon.until(is_settled))
    config.write_text(FILLERS.format(me=ME, every="2s", command='["sleep", "2000"]').replace('"5s"', '"6s"'))
    assert daemon("reload") is True
    after = pids(daemon.until(lambda seen: is_settled(seen) and pids(seen)["high", "0"] != before["high", "0"]))
    assert after["low", "1"] == before["low", "1"], "other rules, the same process"
    config.write_text("[terminals]\nusers = 'ignore'\n")
    assert daemon("reload") is True
    assert daemon("see")["fillers"] != []
    assert daemon.until(lambda seen: seen["fillers"] == [])["guards"] == []
    while daemon("cost")["children"]:
        daemon("tick")
    assert daemon.said("low: GPU 1: giving it back: the config has changed")


STOPS = """
[machine]
every = "1s"

[terminals]
users = "ignore"

[[idle]]
name = "forgotten"
act = true
idle_for = "20s"
warn_before = "10s"
warmup = "0s"
"""


@pytest.fixture
def warned(world: World, up: Callable[..., Resident], config: pathlib.Path) -> Iterator[tuple[Resident, int]]:
    """A daemon that has warned the people of an idle job, and the job."""
    config.write_text(STOPS)
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as job:
        world[0].compute, world[0].memory_used = [Process(job.pid, GIB)], GIB
        daemon = up()
        daemon.until(lambda _: daemon.said(f"job {job.pid} (sleep) will be stopped in 10s"))
        yield daemon, job.pid
        job.kill()


def test_a_reload_forgets_no_warning_and_the_job_is_stopped_when_it_said(
    warned: tuple[Resident, int], config: pathlib.Path
) -> None:
    daemon, pid = warned
    config.write_text(f"{STOPS}[protect]\ncommands = ['something']\n[notices]\nurls = ['json://127.0.0.1:1']\n")
    assert daemon("reload") is True
    daemon("tick", ticks=9)
    assert not daemon.said("stopping")
    daemon("tick", ticks=2)
    assert daemon.said(f"job {pid} (sleep): idle for 20s")
    assert not daemon.said("goes on")


def test_a_warning_is_taken_back_when_its_rule_leaves_the_config(
    warned: tuple[Resident, int], config: pathlib.Path
) -> None:
    daemon, pid = warned
    config.write_text("[machine]\nevery = '1s'\n")
    assert daemon("reload") is True
    assert daemon.said(f"job {pid} (sleep) goes on: the config has changed")


def test_a_warning_is_taken_back_when_the_daemon_ends(warned: tuple[Resident, int]) -> None:
    daemon, pid = warned
    daemon("end")
    assert daemon.said(f"job {pid} (sleep) goes on: fallow is ended")


def test_a_reload_does_not_wait_for_a_disk_and_what_it_changes_in_history_counts(
    world: World, fallow: Fallow, up: Callable[..., Resident], config: pathlib.Path
) -> None:
    daemon = up()
    daemon("tick", ticks=10)
    daemon("cost")  # until that is written
    file = pathlib.Path(fallow.environ["FALLOW_STATE_DIR"]) / "history.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        daemon("tick", ticks=10)
        text = FILLERS.format(me=ME, every="2s", command='["sleep", "1000"]')
        config.write_text(f"{text}[history]\nkeep_for = '7d'\n")
        began_s = time.monotonic()
        assert daemon("reload") is True
        took_s = time.monotonic() - began_s
    daemon("tick", ticks=10)
    daemon("end")
    assert took_s < 4.0, "a reload that waits for the disk waits 5 s"
    begin_ms = 1_700_000_000_000
    past = open_history(str(file.parent))
    assert past is not None
    witnessed_ms = sum(one.witnessed_ms for one in past.tallies([begin_ms, begin_ms + 3_600_000]))
    past.close()
    assert witnessed_ms == 8 * 39_000, "it forgets nothing, and witnesses looks that are two seconds apart"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[machine]\nevry = 1\n[page]\nlisten = 'x'", "fallow.toml:2: machine.evry"),
        (
            f"[[filler]]\nname = 'x'\nuser = '{ME}'\ncommand = 'no-such-command'",
            "there is no command 'no-such-command'",
        ),
        (None, "there is no such file"),
    ],
)
def test_a_wrong_config_is_told_and_the_old_one_stays(
    world: World, up: Callable[..., Resident], config: pathlib.Path, text: str | None, says: str
) -> None:
    daemon = up()
    before = daemon.until(is_settled)
    if text is None:
        config.unlink()
    else:
        config.write_text(text)
    assert daemon("reload") is False
    assert daemon.said("the config is not loaded, and the old one stays in force")
    assert daemon.said(says)
    if text and "evry" in text:
        assert daemon.said("fallow.toml:4: page.listen"), "all mistakes at once"
    daemon("tick", ticks=10)
    assert pids(daemon("see")) == pids(before)


def test_a_dry_run_starts_nobody_and_shows_everything(world: World, up: Callable[..., Resident]) -> None:
    daemon = up("dry_run")
    seen = daemon.until(lambda seen: phases(seen) == SETTLED)
    assert set(pids(seen).values()) == {None}
    assert ["start", "dry_run", 3] in seen["actions"]
    assert daemon("cost")["children"] == 0


def test_a_guard_in_a_dry_run_sends_no_notice(
    world: World, config: pathlib.Path, up: Callable[..., Resident]
) -> None:
    urls = "urls = ['json://127.0.0.1:1']"  # where nobody listens: a notice that is sent is told as a failure
    guard = "action = 'shutdown'\nname = 'dry'\ndry_run = true\narm_for = '2s'\nidle_for = '2s'\ncountdown = '2s'"
    config.write_text(f"[terminals]\nusers = 'ignore'\n[notices]\n{urls}\n[[guard]]\n{guard}\n")
    daemon = up()
    world[0].utilization, world[0].compute = 90, [Process(os.getpid(), GIB)]
    daemon.until(lambda seen: seen["guards"] == [["dry", "armed"]])
    world[0].utilization, world[0].compute = 0, []
    daemon.until(lambda _: daemon.said("would turn the machine off: "))
    daemon("end")
    assert daemon.said("would turn the machine off in 2s")
    assert not daemon.said("about to")
    assert not daemon.said("notices: ")


@pytest.mark.more
def test_a_driver_that_goes_away_makes_all_unknown_and_is_found_again(
    world: World, up: Callable[..., Resident]
) -> None:
    daemon = up()
    before = daemon.until(is_settled)
    gone = world.fault("*", error=9)  # NVML_ERROR_DRIVER_NOT_LOADED
    world.init_error = 9
    seen = daemon.until(lambda seen: "the NVIDIA driver is not loaded" in seen["because"][0])
    assert seen["activities"] == ["unknown"] * 8
    assert seen["uuids"] == before["uuids"]
    daemon.until(lambda seen: set(phases(seen).values()) == {"quiet"})
    threads = daemon("cost")["threads"]
    daemon("tick", ticks=200)
    # One may be trying at this moment, and another one writing history.
    assert daemon("cost")["threads"] <= threads + 2, "no try leaves a thread behind"
    world.heal(gone)
    world.init_error = 0
    assert daemon.until(is_settled)["activities"] == ["free"] * 8


def test_a_driver_that_hangs_makes_all_unknown_and_nothing_acts(world: World, up: Callable[..., Resident]) -> None:
    daemon = up(limit_s=0.2)
    daemon.until(is_settled)
    hang = world.fault("nvmlDeviceGetMemoryInfo", never=True)
    seen = daemon.until(lambda seen: seen["activities"] == ["unknown"] * 8)
    assert all("does not answer" in because for because in seen["because"])
    threads = daemon("cost")["threads"]
    daemon.until(lambda seen: set(phases(seen).values()) == {"quiet"})
    daemon("tick", ticks=50)
    assert daemon("cost")["threads"] == threads
    world.heal(hang)
    assert daemon.until(is_settled)["activities"] == ["free"] * 8


def test_a_card_that_comes_later_is_filled_too(make_world: Callable[..., World], up: Callable[..., Resident]) -> None:
    world = make_world(cards=2)
    lost = world.fault("*", card=1, error=15)  # NVML_ERROR_GPU_IS_LOST
    daemon = up()
    daemon.until(lambda seen: phases(seen).get(("high", "0")) == "filled")
    assert ("low", "1") not in phases(daemon("see"))
    world.heal(lost)
    daemon.until(is_settled)


@pytest.mark.more
def test_24_hours_of_comings_and_goings_leak_no_memory_no_descriptor_and_no_process(
    world: World, up: Callable[..., Resident], config: pathlib.Path
) -> None:
    every_s, hours = 15, HOURS
    config.write_text(FILLERS.format(me=ME, every=f"{every_s}s", command='["sleep", "1000"]'))
    daemon = up()
    with subprocess.Popen(["sleep", "1000"]) as somebody:
        costs = []
        for hour in range(hours):
            for card in (0, hour % 8):  # somebody comes to a filled card and to another, works, idles and goes
                world[card].compute = [Process(somebody.pid, GIB)]
                world[card].utilization = 80
            daemon("tick", ticks=60)
            for card in world:
                card.utilization = 0
            daemon("tick", ticks=60)
            for card in world:
                card.compute = []
            if hour % 6 == 5:
                assert daemon("reload") is True
            daemon("tick", ticks=3600 // every_s - 120)
            costs.append(daemon("cost"))
        somebody.kill()
    seen = daemon("see")
    assert seen["yields"]["high"] >= hours - 1, "in the first hour there was nobody to make way yet"
    assert seen["seconds"] == pytest.approx(8 * hours * 3600, rel=0.01)
    early, late = costs[hours // 2], costs[-1]
    assert late["memory_mb"] <= early["memory_mb"] + 1.0, costs
    assert late["objects"] <= early["objects"] * 1.02, costs
    for what in ("threads", "children"):
        assert late[what] <= early[what], costs
    assert len(late["open"]) <= len(early["open"]), (early["open"], late["open"])
    left = daemon("end")
    assert left["children"] == 0
    assert len(left["open"]) < len(early["open"]), (early["open"], left["open"])
