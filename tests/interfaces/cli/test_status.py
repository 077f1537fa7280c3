"""`fallow status` tells the truth about each card."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pwd import getpwuid
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill
from tests.places import LIMIT_S
from tests.standin import MigInstance, Process, World
from tests.waiting import PROGRAM_S, until

GIB = 2**30
DEAD_PID = 4_000_000
Cards = dict[str, dict[str, Any]]


def gpus(fallow: Fallow, *words: str) -> list[dict[str, Any]]:
    done = fallow("status", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["gpus"]
    return found


def hold(world: World, *cards: int) -> None:
    for card in cards:
        world[card].compute = [Process(os.getpid(), 2 * GIB)]
        world[card].memory_used = 2 * GIB + 4 * 2**20


def furnish(world: World) -> None:
    """Give each card of a world a peculiarity."""
    hold(world, 0, 1, 2, 10, 11, 12, 13, 14, 15, 16)
    now_us = int(time.time() * 1e6)
    card = world[0]
    card.utilization, card.memory_utilization, card.power_mw, card.temperature_c = 42, 17, 345_600, 61
    card.throttle_reasons = 0x04 | 0x20
    world[2].samples = [(now_us - 200_000 * age, 25 if age % 5 == 0 else 0) for age in range(1, 60)][::-1]
    world[3].compute = [Process(DEAD_PID, GIB)]
    world[4].graphics = [Process(DEAD_PID, GIB)]
    world[5].mps = [Process(DEAD_PID + 1, GIB)]
    for at in (3, 4, 5):
        world[at].memory_used = GIB
    world.fault("*", card=6, error=15)
    taken = MigInstance(memory_total=20 * GIB, memory_used=3 * GIB, processes=[Process(os.getpid(), 3 * GIB)])
    world[7].mig = [MigInstance(memory_total=10 * GIB), None, taken]
    world[8].mig = []
    world.fault("nvmlDeviceGetPowerUsage", card=9, error=3)
    world[10].process_samples = []
    for at, done in ((11, (60, 10, 0, 0)), (12, (0, 60, 0, 0)), (13, (1, 1, 60, 0)), (14, (0, 0, 255, 60))):
        world[at].process_samples = [(os.getpid(), now_us, *done)]
        world[at].utilization = 60
    for at in (15, 16):
        world[at].gpm = None
        world[at].pcie_rx_kbps = 5000
    world[15].utilization = 100
    world[17].uuid = "GPU-\udcff"
    world[18].name = "NVIDIA \udcff\udcfe"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, library: Any) -> Iterator[tuple[Fallow, World]]:
    world = World.create(tmp_path_factory.mktemp("world") / "of", cards=19)
    furnish(world)
    fallow = Fallow(tmp_path_factory.mktemp("home"))
    fallow.environ.update(world.environ(library))
    yield fallow, world
    world.close()


@pytest.fixture(scope="module")
def cards(machine: tuple[Fallow, World]) -> Cards:
    """What one look tells of each card, by its label."""
    return {
        f"{gpu['index']}" + ("" if gpu["mig_slot"] is None else f":{gpu['mig_slot']}"): gpu
        for gpu in gpus(machine[0])
    }


def test_the_readings_are_those_of_the_driver(cards: Cards) -> None:
    gpu = cards["0"]
    names = ("utilization", "memory_utilization", "power_w", "temperature_c", "throttled_by")
    assert [gpu[name] for name in names] == [0.42, 0.17, 345.6, 61, ["power cap", "software thermal"]]
    (holder,) = gpu["holders"]
    assert (holder["pid"], holder["memory_bytes"]) == (os.getpid(), 2 * GIB)
    assert holder["user"] == getpwuid(os.getuid()).pw_name
    assert gpu["for_s"] is None, "nobody was watching"


def test_held_and_still_is_idle_and_work_of_five_per_cent_of_each_second_is_busy(cards: Cards) -> None:
    assert cards["1"]["activity"] == "idle"
    assert "nothing ran in the last" in cards["1"]["because"]
    assert (cards["2"]["utilization"], cards["2"]["activity"]) == (0, "busy"), "the instant that others show"
    assert 0.03 < cards["2"]["utilization_mean"] < 0.08


def test_what_proc_does_not_have_and_graphics_and_mps_hold_a_card_too(cards: Cards) -> None:
    assert [cards[label]["holders"][0]["pid"] for label in "345"] == [DEAD_PID, DEAD_PID, DEAD_PID + 1]
    (holder,) = cards["3"]["holders"]
    assert (cards["3"]["activity"], holder["user"]) == ("idle", None)
    assert "pid namespace" in holder["unknown"]["user"]


def test_a_lost_card_is_unknown_and_a_missing_figure_makes_none_bad(cards: Cards) -> None:
    assert cards["6"]["activity"] == "unknown"
    assert "lost" in cards["6"]["because"]
    assert (cards["9"]["activity"], cards["9"]["power_w"]) == ("free", None)
    assert "does not support" in cards["9"]["unknown"]["power_w"]


def test_mig_instances_are_gpus_of_their_own(cards: Cards) -> None:
    assert [label for label in cards if label.startswith("7")] == ["7:0", "7:2"]
    empty, taken = cards["7:0"], cards["7:2"]
    assert empty["uuid"].startswith("MIG-")
    assert (empty["activity"], empty["memory_total_bytes"]) == ("free", 10 * GIB)
    assert taken["holders"][0]["pid"] == os.getpid()
    assert taken["activity"] == "unknown", "one look at an instance that somebody holds cannot tell whether it works"
    assert cards["8"]["activity"] == "unknown"
    assert "no instance" in cards["8"]["because"], "in MIG mode and not divided it is of no use"


def test_work_of_every_kind_is_told_by_process_and_not_found_means_none(cards: Cards) -> None:
    assert [cards[label]["holders"][0]["utilization"] for label in ("10", "11", "12", "13", "14")] == [0, *[0.6] * 4]


def test_bus_traffic_is_asked_only_of_a_card_without_counters_that_looks_hung(
    cards: Cards, machine: tuple[Fallow, World]
) -> None:
    assert [cards[label]["pcie_rx_bytes_per_s"] for label in ("15", "16")] == [5000 * 1024, None]
    assert machine[1].calls("nvmlDeviceGetPcieThroughput") == 2


def test_a_uuid_or_a_name_that_is_no_text_is_unknown(cards: Cards) -> None:
    assert (cards["17"]["uuid"], cards["17"]["activity"]) == (None, "unknown")
    assert (cards["18"]["name"], cards["18"]["activity"]) == (None, "free")
    assert "makes no sense" in cards["18"]["unknown"]["name"]


def test_the_long_table_says_who_holds_what_and_why(machine: tuple[Fallow, World]) -> None:
    done = machine[0]("status", "-l")
    lines = done.stdout.splitlines()
    assert any("idle" in line and str(os.getpid()) in line for line in lines)
    assert any("unknown" in line and "lost" in line for line in lines)
    assert "\x1b" not in done.stdout, "colour only on a terminal"


def watched(fallow: Fallow, looks: int, change: Callable[[int], None]) -> list[dict[str, Any]]:
    """So many sights of `status --watch`, with something done after each."""
    process = fallow.start("status", "--watch=0.25", "--json")
    assert process.stdout is not None
    statuses = []
    for number in range(looks):
        statuses.append(json.loads(process.stdout.readline()))
        change(number)
    process.send_signal(2)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == -2, "Ctrl-C"
    return statuses


def test_watching_witnesses_time_and_sees_what_changes_and_counters_from_the_second_look_on(
    world: World, fallow: Fallow
) -> None:
    hold(world, 0)
    world[0].gpm = {2: 96.0, 3: 14.0, 5: 94.0, 10: 16.0, 20: 1.0, 21: 56_000.0}

    def begin_work(number: int) -> None:
        if number == 1:
            world[0].utilization = 80

    statuses = watched(fallow, 4, begin_work)
    seen = [status["gpus"][0] for status in statuses]
    assert seen[0]["for_s"] == 0
    assert 0.2 < statuses[1]["gpus"][1]["for_s"] < 30
    assert seen[-1]["activity"] == "busy"
    assert statuses[-1]["gpus"][1]["for_s"] > statuses[1]["gpus"][1]["for_s"], "the others were free all the time"
    assert seen[0]["counter_tensor"] is None
    assert "two looks" in seen[0]["unknown"]["counter_tensor"]
    tensor, occupancy = seen[1]["counter_tensor"], seen[1]["counter_occupancy"]
    assert (round(tensor, 3), round(occupancy, 3)) == (0.94, 0.14)
    assert seen[1]["pcie_rx_bytes_per_s"] == 56_000 * 2**20


@pytest.mark.more
def test_a_claim_shows(simulated: Fallow) -> None:
    job = simulated.start("run", "--gpus", "2", "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    job.stdout.readline()
    gpu = gpus(simulated)[2]
    assert (gpu["claim"]["pid"], gpu["claim"]["shared"], gpu["activity"]) == (job.pid, False, "idle")
    assert "claimed by" in simulated("status", "-l").stdout
    job.communicate("\n", timeout=LIMIT_S)


def test_a_launch_is_given_the_time_to_start(world: World, fallow: Fallow) -> None:
    fallow.start("run", "--gpus", "2", "--", "sleep", "1000")
    (gpu,) = until(lambda: gpus(fallow, "2"), lambda seen: seen[0]["claim"] is not None, pause_s=PROGRAM_S)
    assert (gpu["activity"], gpu["reason"]) == ("busy", "just_claimed")


def test_the_mark_of_a_filler_on_somebodys_card_makes_it_nobodys_filler(world: World, fallow: Fallow) -> None:
    """The mark is a lock that anybody can take."""
    Fill(fallow.start("fill", "--gpus", "0", "--idle-for", "0", "--", "sleep", "1000")).until("filling it")
    hold(world, 0)
    (gpu,) = gpus(fallow, "0")
    assert (gpu["activity"], gpu["filler"]) == ("idle", None)


def test_the_summary_says_how_many_are_available_to_you_under_an_outer_allocation(
    world: World, fallow: Fallow
) -> None:
    hold(world, 0)
    shown = fallow("status", CUDA_VISIBLE_DEVICES="0,3", COLUMNS="140")
    summary = ": 1 available to you (CUDA_VISIBLE_DEVICES=0,3), 7 available in all (7 free)"
    assert summary in shown.stdout.splitlines()[0]
    facts = json.loads(fallow("status", "--json", CUDA_VISIBLE_DEVICES="9,3").stdout)
    assert (facts["available"], facts["available_to_you"]) == (7, 0)


@pytest.mark.parametrize(
    ("words", "cards"),
    [
        (("--simulate", "2xH100", "status"), 2),
        (("status", "0", "--simulate", "2xH100,1xT4"), 1),
        (("status", "--simulate", "0"), 1),
        (("status", "--simulate=3"), 3),
    ],
)
def test_a_simulated_machine_may_stand_behind_its_option(fallow: Fallow, words: tuple[str, ...], cards: int) -> None:
    """A bare --simulate swallows no GPU."""
    status = json.loads(fallow(*words, "--json").stdout)
    assert (len(status["gpus"]), status["simulated"]) == (cards, True)
