"""Every block of gpu_sentinel's document, with one word changed, does what the words beside it say."""

import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from fallow.compat import Sentinel, SentinelState
from tests.compat.documents import blocks, commands, ours
from tests.conftest import Fallow
from tests.interfaces.cli.test_guard import rest, systemctl, until, work
from tests.places import LIMIT_S, REPOSITORY
from tests.standin import World

__all__ = ["systemctl"]  # a fixture
INSTALL, OPTIONS = blocks("gpu_sentinel", "")
(API,) = blocks("gpu_sentinel", "python")
# The block forgets `import time`. This one lets no time pass: the cards work for 12 ticks and then rest.
TIME = """
import atexit, os
from tests.standin import World
from tests.interfaces.cli.test_guard import rest

class time:
    ticks = 0

    @staticmethod
    def sleep(seconds):
        assert seconds == 1
        time.ticks += 1
        if time.ticks == 12:
            rest(World.attach(os.environ["FALLOW_STANDIN_WORLD"]), 0, 1, 2, 3)
        if time.ticks == 200:
            raise SystemExit("never triggered")

atexit.register(lambda: print("after", time.ticks + 1, "ticks"))
"""


def test_the_loop_of_the_document_arms_after_ten_ticks_and_triggers_after_sixty_more(
    world: World, fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    work(world, 0, 1, 2, 3)
    program = tmp_path / "loop.py"
    program.write_text(TIME + ours(API))
    environ = {**fallow.environ, "PYTHONPATH": str(REPOSITORY)}
    words = [sys.executable, str(program)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "Triggered!\nafter 72 ticks\n"), done.stderr


def test_every_option_of_the_document_is_taken_and_the_help_names_it(fallow: Fallow) -> None:
    install, show_help = commands(INSTALL)
    assert install == "pip install gpu_sentinel", "fallow is installed instead"
    shown = fallow(*ours(show_help).split()[1:])
    assert shown.returncode == 0
    for line in OPTIONS.splitlines():
        name, _, says = line.partition(": ")
        assert f"--{name}" in shown.stdout
        if "{" in says:
            assert says[says.index("{") :] in shown.stdout


@pytest.fixture
def start(fallow: Fallow) -> Callable[..., "subprocess.Popen[str]"]:
    def start(*words: str) -> "subprocess.Popen[str]":
        quick = ("--arm_duration", "1", "--kill_duration", "1")
        return fallow.start("compat", "gpu_sentinel", *quick, *words)

    return start


@pytest.mark.more
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), []),
        (("--kill_action", "shutdown"), ["systemctl poweroff"]),
        (("--kill_action", "reboot", "--gpu_devices"), ["systemctl reboot"]),
    ],
)
@pytest.mark.as_root
def test_it_arms_on_work_and_acts_once_when_it_has_ended(
    world: World,
    start: Callable[..., "subprocess.Popen[str]"],
    systemctl: pathlib.Path,
    words: tuple[str, ...],
    told: list[str],
) -> None:
    work(world, *range(8))
    guard = start(*words)
    assert "all GPUs" in until(guard, "usage of"), "an empty list of devices means all"
    until(guard, "armed")
    assert systemctl.read_text() == ""
    rest(world, *range(8))
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0
    assert [line for line in systemctl.read_text().splitlines() if line.startswith("systemctl")] == told


@pytest.mark.more
def test_it_averages_the_devices_that_are_named(
    world: World, start: Callable[..., "subprocess.Popen[str]"], systemctl: pathlib.Path
) -> None:
    work(world, 0, 1)
    guard = start("--gpu_devices", "0", "1", "--kill_action", "end_process")
    until(guard, "armed")
    rest(world, 1)
    guard.communicate(timeout=LIMIT_S)
    assert guard.returncode == 0, "one of two at 90 % is 45 %, which is below 70 %"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--gpu_devices", "9"), "there is no GPU '9' here"),
        (("--kill_action", "explode"), "invalid choice"),
        (("--arm_threshold", "80"), "--arm_threshold is a fraction, 0..1"),
    ],
)
def test_wrong_words_are_answered_at_once(world: World, fallow: Fallow, words: tuple[str, ...], says: str) -> None:
    done = fallow("compat", "gpu_sentinel", *words)
    assert done.returncode == 2
    assert says in done.stderr


class Counter:
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def sentinel(kill_fn: Counter) -> Sentinel:
    return Sentinel(arm_duration=3, arm_threshold=0.8, kill_duration=2, kill_threshold=0.7, kill_fn=kill_fn)


def tick(subject: Sentinel, *values: float) -> None:
    for value in values:
        subject.tick(value)


def test_kill_fn_is_called_once_however_long_the_quiet_lasts() -> None:
    killed = Counter()
    subject = sentinel(killed)
    tick(subject, 0.9, 0.9)
    assert subject.state is SentinelState.SAFE is SentinelState.IDLE
    tick(subject, 0.9)
    assert subject.state is SentinelState.ARMED
    tick(subject, 0.1)
    assert killed.calls == 0
    tick(subject, *[0.1] * 10)
    assert (killed.calls, subject.state) == (1, SentinelState.ARMED)


def test_comparisons_are_strict_and_a_break_starts_again() -> None:
    killed = Counter()
    subject = sentinel(killed)
    tick(subject, 0.8, 0.8, 0.8, 0.9, 0.9, 0.8, 0.9, 0.9)
    assert subject.state is SentinelState.SAFE
    tick(subject, 0.9, 0.7, 0.7, 0.7, 0.69, 0.7, 0.69)
    assert killed.calls == 0
    tick(subject, 0.69)
    assert killed.calls == 1


def test_what_is_not_a_number_is_neither_work_nor_quiet() -> None:
    killed = Counter()
    subject = sentinel(killed)
    tick(subject, 0.9, 0.9, float("nan"), 0.9, 0.9)
    assert subject.state is SentinelState.SAFE
    tick(subject, 0.9, 0.1, float("nan"), 0.1, float("nan"), float("nan"))
    assert killed.calls == 0


def test_a_kill_fn_that_fails_was_called_all_the_same() -> None:
    def fails() -> None:
        raise OSError("no power")

    subject = Sentinel(1, 0.5, 1, 0.5, fails)
    subject.tick(0.9)
    with pytest.raises(OSError, match="no power"):
        subject.tick(0.1)
    subject.tick(0.1)


def test_usage_is_the_mean_of_those_named_and_not_a_number_where_one_is_unknown(world: World, fallow: Fallow) -> None:
    work(world, 0, 1)
    world.fault("*", card=7, error=15)
    program = "from fallow.compat import get_gpu_usage as usage\n" + (
        "print(usage([0, 1]), usage(device_ids=[0, 2, 99]), usage([]), usage(None), usage([99]))"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=fallow.environ, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout == "0.9 0.45 nan nan nan\n"


def test_a_sentinel_without_a_time_to_arm_arms_at_once() -> None:
    """As the older tool does: zero ticks of work are enough, whatever was seen."""
    fired: list[int] = []
    sentinel = Sentinel(0, 0.8, 2, 0.7, lambda: fired.append(1))
    sentinel.tick(0.1)
    assert sentinel.state is SentinelState.ARMED
    for _ in range(5):
        sentinel.tick(0.1)
    assert fired == [1]
