"""Errors, and calls that never answer."""

import concurrent.futures

from tests.places import LIMIT_S
from tests.standin import World
from tests.waiting import until

from .remote import LOST, OK, UNKNOWN, Reader


def test_a_fault_hits_one_call_on_one_card_until_withdrawn(nvml: Reader, world: World) -> None:
    token = world.fault("nvmlDeviceGetMemoryInfo", card=3, error=UNKNOWN)
    assert [nvml(f"code(lambda: used(card({at})))") for at in (3, 4)] == [UNKNOWN, OK]
    assert nvml("nvml.nvmlDeviceGetPowerUsage(card(3))") == 83_000
    world.heal(token)
    assert nvml("code(lambda: used(card(3)))") == OK
    assert world.calls("nvmlDeviceGetMemoryInfo") == 3


def test_every_call_on_a_lost_card_says_so(nvml: Reader, world: World) -> None:
    nvml("globals().update(lost=card(2)) or 1")
    world.fault("*", card=2, error=LOST)
    for call in (
        "card(2)",
        "nvml.nvmlDeviceGetUUID(lost)",
        "listed(lost)",
        "nvml.nvmlDeviceGetSamples(lost, 1, 0)",
        "nvml.nvmlGpmQueryDeviceSupport(lost)",
    ):
        assert nvml(f"code(lambda: {call})") == LOST
    assert nvml("nvml.nvmlDeviceGetCount()") == 8
    assert nvml("nvml.nvmlDeviceGetUtilizationRates(card(1)).gpu") == 0


def test_a_call_that_never_answers_goes_on_when_its_fault_is_withdrawn(nvml: Reader, world: World) -> None:
    token = world.fault("nvmlDeviceGetPowerUsage", card=0, error=UNKNOWN, never=True)
    with concurrent.futures.ThreadPoolExecutor() as executor:
        answer = executor.submit(nvml, "nvml.nvmlDeviceGetPowerUsage(card(0))")
        until(lambda: world.stuck() == 1)
        assert not answer.done()
        world[0].power_mw = 99_000
        world.heal(token)
        assert answer.result(timeout=LIMIT_S) == 99_000
    assert world.stuck() == 0
