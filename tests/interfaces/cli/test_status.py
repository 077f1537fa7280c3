"""`fallow status` tells the truth about each card."""

import json
import os
import time
from collections.abc import Callable
from pwd import getpwuid
from typing import Any

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import MigInstance, Process, World

GIB = 2**30
DEAD_PID = 4_000_000


def gpus(fallow: Fallow, *words: str) -> list[dict[str, Any]]:
    done = fallow("status", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["gpus"]
    return found


def protection(world: World, card: int, *, pid: int | None = None, used: int = 2 * GIB) -> None:
    world[card].compute = [Process(pid or os.getpid(), used)]
    world[card].memory_used = used + 4 * 2**20


def test_the_json_has_every_field_of_the_contract(world: World, fallow: Fallow) -> None:
    protection(world, 0)
    status = json.loads(fallow("status", "--json").stdout)
    assert status["version"] == 1
    fields = {"version", "host", "simulated", "at", "available", "available_to_you", "counts", "gpus", "parked"}
    assert status.keys() == fields
    assert status["simulated"] is False
    gpu = status["gpus"][0]
    contract = {"index", "uuid", "name", "activity", "for_s", "because", "utilization", "memory_used_bytes"}
    contract |= {"memory_total_bytes", "power_w", "temperature_c", "available", "holders", "claim", "unknown"}
    contract |= {"protection", "left_alone", "stops_at", "warns_at", "killed_at", "stop_held_back"}
    assert contract <= gpu.keys()
    assert {"pid", "user", "command", "memory_bytes", "owner"} <= gpu["holders"][0].keys()
    assert gpu["for_s"] is None, "nobody was watching"


def test_the_readings_are_those_of_the_driver(world: World, fallow: Fallow) -> None:
    card = world[3]
    card.utilization, card.memory_utilization, card.power_mw, card.temperature_c = 42, 17, 345_600, 61
    card.throttle_reasons = 0x04 | 0x20
    protection(world, 3)
    gpu = gpus(fallow, "3")[0]
    assert gpu["utilization"] == 0.42
    assert gpu["memory_utilization"] == 0.17
    assert gpu["power_w"] == 345.6
    assert gpu["temperature_c"] == 61
    assert gpu["throttled_by"] == ["power cap", "software thermal"]
    assert gpu["holders"][0]["memory_bytes"] == 2 * GIB
    assert gpu["holders"][0]["user"] == getpwuid(os.getuid()).pw_name


def test_held_and_still_is_idle_and_not_free(world: World, fallow: Fallow) -> None:
    protection(world, 1)
    found = gpus(fallow)
    assert [gpu["activity"] for gpu in found] == ["free", "idle", *["free"] * 6]
    assert "nothing ran in the last" in found[1]["because"]


def test_a_job_that_works_five_per_cent_of_each_second_is_busy(world: World, fallow: Fallow) -> None:
    protection(world, 0)
    now_us = int(time.time() * 1e6)
    world[0].utilization = 0
    world[0].samples = [(now_us - 200_000 * age, 25 if age % 5 == 0 else 0) for age in range(1, 60)][::-1]
    gpu = gpus(fallow)[0]
    assert gpu["utilization"] == 0, "the instant that others show"
    assert gpu["activity"] == "busy"
    assert 0.03 < gpu["utilization_mean"] < 0.08


def test_graphics_and_mps_processes_are_holders_too(world: World, fallow: Fallow) -> None:
    world[0].graphics = [Process(DEAD_PID, GIB)]
    world[1].mps = [Process(DEAD_PID + 1, GIB)]
    world[0].memory_used = world[1].memory_used = GIB
    found = gpus(fallow)
    assert [gpu["holders"][0]["pid"] for gpu in found[:2]] == [DEAD_PID, DEAD_PID + 1]


def test_a_lost_card_is_a_row_and_the_others_are_well(world: World, fallow: Fallow) -> None:
    world.fault("*", card=2, error=15)
    found = gpus(fallow)
    assert len(found) == 8
    assert found[2]["activity"] == "unknown"
    assert "lost" in found[2]["because"]
    assert {gpu["activity"] for gpu in found if gpu["index"] != 2} == {"free"}


@pytest.mark.parametrize(
    ("error", "words"),
    [(3, "does not support"), (4, "does not permit"), (13, "too old"), (999, "Unknown Error")],
)
def test_each_error_means_what_it_means(world: World, fallow: Fallow, error: int, words: str) -> None:
    world.fault("nvmlDeviceGetPowerUsage", card=0, error=error)
    gpu = gpus(fallow)[0]
    assert gpu["power_w"] is None
    assert words in gpu["unknown"]["power_w"]
    assert gpu["activity"] == "free", "a card is not bad because one figure is missing"


def test_mig_instances_are_gpus_of_their_own(world: World, fallow: Fallow) -> None:
    world[1].mig = [
        MigInstance(memory_total=10 * GIB),
        None,
        MigInstance(memory_total=20 * GIB, memory_used=3 * GIB, processes=[Process(os.getpid(), 3 * GIB)]),
    ]
    found = gpus(fallow, "0-2")
    assert [(gpu["index"], gpu["mig_slot"]) for gpu in found] == [(0, None), (1, 0), (1, 2), (2, None)]
    empty, taken = found[1], found[2]
    assert empty["uuid"].startswith("MIG-")
    assert (empty["activity"], empty["memory_total_bytes"]) == ("free", 10 * GIB)
    assert taken["holders"][0]["pid"] == os.getpid()
    assert taken["activity"] == "unknown", "one look at an instance that somebody holds cannot tell whether it works"


def watched(fallow: Fallow, looks: int, change: Callable[[int], None] = lambda _: None) -> list[dict[str, Any]]:
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


def test_watching_witnesses_time_and_sees_what_a_test_changes_live(world: World, fallow: Fallow) -> None:
    protection(world, 0)

    def begin_work(number: int) -> None:
        if number == 2:
            world[0].utilization = 80

    statuses = watched(fallow, 6, begin_work)
    seen = [status["gpus"][0] for status in statuses]
    assert [gpu["activity"] for gpu in seen[:3]] == ["idle"] * 3
    assert seen[0]["for_s"] == 0
    assert 0.2 < seen[2]["for_s"] < 30
    assert seen[-1]["activity"] == "busy"
    assert statuses[-1]["gpus"][1]["for_s"] > seen[2]["for_s"], "the others were free all the time"


def test_the_table_says_who_holds_what_and_why(world: World, fallow: Fallow) -> None:
    protection(world, 1)
    world.fault("*", card=2, error=15)
    done = fallow("status", "-l")
    lines = done.stdout.splitlines()
    assert "7 x H100, 1 x unknown: 6 available" in lines[0]
    assert any("idle" in line and str(os.getpid()) in line for line in lines)
    assert any("unknown" in line and "lost" in line for line in lines)
    assert "\x1b" not in done.stdout, "colour only on a terminal"


def test_simulated_gpus_say_so_on_every_face(simulated: Fallow) -> None:
    assert json.loads(simulated("status", "--json").stdout)["simulated"] is True
    assert "simulated" in simulated("status").stdout


def test_a_claim_shows(simulated: Fallow) -> None:
    job = simulated.start("run", "--gpus", "2", "--", "sh", "-c", "echo up; read line")
    assert job.stdout is not None
    job.stdout.readline()
    gpu = gpus(simulated)[2]
    assert gpu["claim"]["pid"] == job.pid
    assert gpu["claim"]["shared"] is False
    assert gpu["activity"] == "idle"
    assert "claimed by" in simulated("status", "-l").stdout
    assert "sh -c echo up" in simulated("status").stdout
    job.communicate("\n", timeout=LIMIT_S)


@pytest.mark.parametrize(
    ("devices", "words", "to_you"),
    [
        ("3", (), 1),
        ("0,3", (), 1),
        ("", (), 0),
        ("9,3", (), 0),
        ("3,1", ("0-1",), 1),
    ],
)
def test_the_summary_says_how_many_are_available_to_you_under_an_outer_allocation(
    world: World, fallow: Fallow, devices: str, words: tuple[str, ...], to_you: int
) -> None:
    protection(world, 0)
    shown = fallow("status", *words, CUDA_VISIBLE_DEVICES=devices, COLUMNS="140")
    in_all = 1 if words else 7
    summary = shown.stdout.splitlines()[0]
    assert f": {to_you or 'none'} available to you (CUDA_VISIBLE_DEVICES={devices or chr(39) * 2})" in summary
    assert f", {in_all} available in all ({in_all} free)" in summary
    facts = json.loads(fallow("status", *words, "--json", CUDA_VISIBLE_DEVICES=devices).stdout)
    assert (facts["available"], facts["available_to_you"]) == (in_all, to_you)
    assert "to you" not in fallow("status").stdout
