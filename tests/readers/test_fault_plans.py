"""Whatever the driver answers, or does not: status answers, healthy cards are right, a bad card is never picked."""

import json
import os
import pathlib
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from tests.conftest import Fallow
from tests.length import PLANS
from tests.standin import Process, World

CARDS = 4
DRIVER_TIMEOUT = "0.5"
LOST, RESET_REQUIRED, NOT_SUPPORTED, FUNCTION_NOT_FOUND = 15, 16, 3, 13
ERRORS = [*range(1, 30), 999]

# What a glance asks of every card, and whether an error there makes the card unfit to be given.
NEEDED = (
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses",
)
NEEDED_UNLESS_ABSENT = (
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)
NICE_TO_HAVE = ("nvmlDeviceGetName", "nvmlDeviceGetTemperature")
ONLY_IN_A_LOOK = (
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetProcessUtilization",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleGet",
    "nvmlDeviceGetPcieThroughput",
)
ON_CARDS = (*NEEDED, *NEEDED_UNLESS_ABSENT, *NICE_TO_HAVE, *ONLY_IN_A_LOOK, "*")
ON_NO_CARD = ("nvmlInit", "nvmlDeviceGetCount", "nvmlGpmSampleAlloc", "nvmlGpmMetricsGet", "nvmlShutdown")

error = st.sampled_from(ERRORS).map(lambda code: {"error": code})
late = st.floats(0.0, 0.004).map(lambda seconds: {"delay_s": seconds})
never = st.just({"never": True})
# Hanging costs a real limit each time, so most plans have errors and delays.
kind = st.sampled_from([error] * 24 + [late] * 8 + [never]).flatmap(lambda strategy: strategy)
fault = st.one_of(
    st.tuples(st.sampled_from(ON_CARDS), st.integers(0, CARDS - 1), kind),
    st.tuples(st.sampled_from(ON_CARDS), st.integers(0, CARDS - 1), kind),
    st.tuples(st.sampled_from(ON_CARDS), st.integers(0, CARDS - 1), kind),
    st.tuples(st.sampled_from(ON_NO_CARD), st.just(-1), error),
)
Fault = tuple[str, int, dict[str, float]]
MakeWorld = Callable[..., World]
plans = st.lists(fault, min_size=1, max_size=4)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, library: pathlib.Path) -> Iterator[tuple[World, Fallow]]:
    home = tmp_path_factory.mktemp("plans")
    world, fallow = World.create(home / "world", cards=CARDS), Fallow(home)
    fallow.environ |= {**world.environ(library), "FALLOW_DRIVER_TIMEOUT": DRIVER_TIMEOUT}
    world[0].utilization, world[0].compute = 37, [Process(os.getpid(), 3 * 2**30)]
    world[0].memory_used = 3 * 2**30
    world[0].power_mw = 350_000
    yield world, fallow
    world.heal()
    world.close()


@pytest.mark.more
@settings(
    max_examples=PLANS,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(plan=plans)
def test_status_always_answers_healthy_cards_are_right_and_a_bad_one_is_never_picked(
    house: tuple[World, Fallow], plan: list[Fault]
) -> None:
    world, fallow = house
    for function, card, what in plan:
        world.fault(function, card=card, **what)  # type: ignore[arg-type]
    try:
        answer, picked = fallow("status", "--json"), fallow("pick")
    finally:
        world.heal()
        while world.stuck():
            time.sleep(0.001)
    check_status(world, plan, answer.returncode, answer.stdout, answer.stderr)
    check_pick(plan, picked.returncode, picked.stdout, picked.stderr)


def starts(plan: list[Fault]) -> bool:
    return not any(function in ("nvmlInit", "nvmlDeviceGetCount") and what.get("error") for function, _, what in plan)


def check_status(world: World, plan: list[Fault], code: int, out: str, err: str) -> None:
    assert "Traceback" not in err
    if not starts(plan):
        event("the driver does not start")
        assert code == 69, err
        return
    assert code == 0, err
    gpus = json.loads(out)["gpus"]
    assert [gpu["index"] for gpu in gpus] == list(range(CARDS))
    touched = {card for _, card, _ in plan}
    for gpu in gpus:
        card = world[gpu["index"]]
        if gpu["index"] not in touched:
            seen = (gpu["uuid"], gpu["utilization"], gpu["memory_used_bytes"], gpu["power_w"], gpu["temperature_c"])
            assert seen == (
                card.uuid,
                card.utilization / 100,
                card.memory_used,
                card.power_mw / 1000,
                card.temperature_c,
            )
            assert gpu["activity"] == ("busy" if gpu["index"] == 0 else "free")
        if gpu["index"] == 0:
            assert gpu["activity"] in ("busy", "unknown"), "a process works there"
        if gpu["index"] in lost(plan):
            event("a lost card")
            assert gpu["activity"] == "unknown"
        if gpu["activity"] == "free":
            assert (gpu["holders"], gpu["utilization"]) == ([], 0), "free is only what is known to be free"
        for name, value in gpu.items():
            if value is None and name not in (
                "mig_slot",
                "mig_parent_uuid",
                "for_s",
                "claim",
                "filler",
                "protection",
                "left_alone",
                "stops_at",
                "warns_at",
                "killed_at",
                "stop_held_back",
                "paused",
            ):
                assert gpu["unknown"].get(name), f"{name} is null without a reason"


def lost(plan: list[Fault]) -> set[int]:
    """Cards that answer every call with GPU_IS_LOST, whatever else is planned after it."""
    first: dict[int, dict[str, float]] = {}
    for function, card, what in plan:
        if function == "*":
            first.setdefault(card, what)
    others = {card for function, card, _ in plan if function != "*"}
    return {card for card, what in first.items() if what.get("error") == LOST and card not in others}


def unfit(plan: list[Fault]) -> set[int]:
    bad: set[int] = set()
    answered: set[tuple[str, int]] = set()
    for function, card, what in plan:
        if (function, card) in answered:
            continue  # the first fault that answers a call is the one that is met
        code = what.get("error", 0)
        hangs = what.get("never", False)
        if code:
            answered.add((function, card))
        if function in ONLY_IN_A_LOOK or function in ON_NO_CARD or not (code or hangs):
            continue
        absent = code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND)
        if function in NICE_TO_HAVE and not hangs and code not in (LOST, RESET_REQUIRED):
            continue
        if function in NEEDED_UNLESS_ABSENT and absent:
            continue
        bad.add(card)
    return bad


def check_pick(plan: list[Fault], code: int, out: str, err: str) -> None:
    assert "Traceback" not in err
    if not starts(plan):
        assert code == 69
        return
    good = set(range(1, CARDS)) - {card for _, card, _ in plan}
    if good:
        assert code == 0, err
    if code == 0:
        event("picked")
        assert int(out) not in unfit(plan), f"picked {out}"
        assert int(out) != 0, "card 0 is busy"
    else:
        event("none left")
        assert code == 75, err
        assert out == ""


def test_a_driver_that_never_starts_is_told_and_the_program_ends(make_world: MakeWorld, fallow: Fallow) -> None:
    make_world().fault("nvmlInit", never=True)
    done = fallow.process("status", FALLOW_DRIVER_TIMEOUT="0.02")
    assert done.returncode == 69
    assert "has not answered nvmlInit" in done.stderr


def test_a_card_that_never_answers_is_a_row_and_the_program_ends(make_world: MakeWorld, fallow: Fallow) -> None:
    world = make_world(cards=3)
    world.fault("nvmlDeviceGetPowerUsage", card=1, never=True)
    done = fallow.process("status", "--json", FALLOW_DRIVER_TIMEOUT="0.5")
    assert done.returncode == 0
    healthy, hung, other = json.loads(done.stdout)["gpus"]
    assert (healthy["activity"], other["activity"]) == ("free", "free")
    assert hung["activity"] == "unknown"
    assert "does not answer nvmlDeviceGetPowerUsage" in hung["because"]
    assert hung["memory_total_bytes"] == world[1].memory_total, "what was read before the hang is kept"
