"""Launches that wait get their GPUs in order of arrival, and picks at once get different GPUs."""

import pathlib
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.conftest import Fallow
from tests.places import LIMIT_S
from tests.standin import World
from tests.waiting import end


def blocked(fallow: Fallow, *words: str) -> subprocess.Popen[str]:
    """Start a job that keeps its card until its stdin ends."""
    blocker = fallow.start("run", *words, "--", "sh", "-c", "echo up; read line")
    assert blocker.stdout is not None
    assert blocker.stdout.readline() == "up\n"
    return blocker


def in_line(fallow: Fallow, *words: str) -> subprocess.Popen[str]:
    """Start a launch, and return once it waits and says so."""
    waiting = fallow.start("run", "--wait", *words)
    assert waiting.stderr is not None
    assert "waiting for " in waiting.stderr.readline()
    return waiting


def test_one_card_is_handed_on_in_exact_order_of_arrival_without_those_that_were_killed(
    make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    make_world(cards=1)
    blocker = blocked(fallow)
    waiting = [in_line(fallow, "--", "sh", "-c", f"echo {number} >> {tmp_path}/log") for number in range(8)]
    for number in (4, 0):
        end(waiting.pop(number))
    blocker.communicate("\n", timeout=LIMIT_S)
    for process in waiting:
        process.communicate(timeout=LIMIT_S)
    assert (tmp_path / "log").read_text().split() == ["1", "2", "3", "5", "6", "7"]


def test_16_picks_at_once_on_16_free_cards_give_16_cards(make_world: Callable[..., World], fallow: Fallow) -> None:
    make_world(cards=16)
    picks = [fallow.start("pick") for _ in range(16)]
    cards = [pick.communicate(timeout=LIMIT_S)[0].strip() for pick in picks]
    assert sorted(cards, key=int) == [str(index) for index in range(16)]


def test_a_released_card_wakes_the_line_at_once_and_not_at_the_next_poll(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    """Counted, not timed: between release and start the driver is asked a few times, not for seconds."""
    world = make_world(cards=1)
    blocker = blocked(fallow)
    waiting = in_line(fallow, "--", "echo", "mine")
    before = world.calls("nvmlDeviceGetUtilizationRates")
    blocker.communicate("\n", timeout=LIMIT_S)
    assert waiting.communicate(timeout=LIMIT_S)[0] == "mine\n"
    assert world.calls("nvmlDeviceGetUtilizationRates") - before <= 2 * 6, "looked in vain for longer than a ring"


@pytest.mark.more
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", ["run --wait --idle-timeout 1h -- true", "pick --wait"])
def test_a_signal_ends_a_wait_and_leaves_no_place(simulated: Fallow, words: str, number: signal.Signals) -> None:
    blocked(simulated, "-n", "4")
    folder = pathlib.Path(simulated.environ["FALLOW_CLAIM_DIR"])
    waiting = simulated.start(*words.split())
    assert waiting.stderr is not None
    assert "waiting for 1 GPU" in waiting.stderr.readline()
    assert len([*folder.glob("wait-*")]) == 1
    waiting.send_signal(number)
    _, rest = waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == -number
    assert "Traceback" not in rest
    assert [*folder.glob("wait-*")] == []
