"""Promise 4: what is unknown, late, broken or contradictory stops nothing."""

import json
import signal
from collections.abc import Callable

import pytest

from tests.interfaces.cli.stopped import is_running
from tests.places import LIMIT_S
from tests.security.machine import ADA, QUICK_RULE, Machine, Page
from tests.standin import Process, World
from tests.waiting import until

pytestmark = pytest.mark.as_root
GIB = 2**30
LONGER_THAN_THE_RULE_S = 6.0
ERROR, LOST = 999, 15
OK = 200
LOADS = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetProcessUtilization",
    "nvmlGpmSampleGet",
)
Spoil = Callable[[World], object]


def load_is_unknown(world: World) -> None:
    for function in LOADS:
        world.fault(function, 0, error=ERROR)


def processes_are_unknown(world: World) -> None:
    world.fault("nvmlDeviceGetComputeRunningProcesses", 0, error=ERROR)


def driver_does_not_answer(world: World) -> None:
    world.fault(LOADS[0], 0, never=True)


def gpu_is_lost(world: World) -> None:
    world.fault("*", 0, error=LOST)


def readings_contradict_each_other(world: World) -> None:
    world[0].utilization = 100


@pytest.mark.parametrize(
    "spoil",
    [
        load_is_unknown,
        pytest.param(processes_are_unknown, marks=pytest.mark.more),
        pytest.param(driver_does_not_answer, marks=pytest.mark.more),
        pytest.param(gpu_is_lost, marks=pytest.mark.more),
        pytest.param(readings_contradict_each_other, marks=pytest.mark.more),
    ],
)
def test_an_idle_job_is_left_alone_while_it_cannot_be_judged_and_stopped_once_it_can(
    machine: Machine, cards: World, spoil: Spoil
) -> None:
    job = machine.start(ADA, "sleep", "1000")
    cards[0].compute = [Process(job.pid, GIB)]
    spoil(cards)
    page = Page(machine.up(QUICK_RULE))

    def unchanged_for_s() -> float:
        status, _, text = page.ask("/api/v1/status")
        return float(json.loads(text)["gpus"][0]["for_s"]) if status == OK else 0.0

    until(unchanged_for_s, lambda seconds: seconds > LONGER_THAN_THE_RULE_S, pause_s=0.2)
    assert is_running(job.pid)
    cards.heal()
    cards[0].utilization = 0
    assert job.wait(LIMIT_S) == -signal.SIGTERM
