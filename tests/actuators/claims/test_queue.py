"""Many launches at once: never two on a card, all get their turn, in order of arrival."""

import fcntl
import os
import pathlib
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pwd import getpwuid

from tests.conftest import Fallow
from tests.length import LAUNCHES, SEED
from tests.places import LIMIT_S
from tests.standin import World

USER = getpwuid(os.getuid()).pw_name

# Locks a file of its own for its card: if anybody is there, two were given one card. The kernel closes low
# descriptors first, so a job that is killed lets go of this lock before it lets go of its claim.
JOB = """
import fcntl, os, sys, time
folder, number = sys.argv[1], sys.argv[2]
card = os.environ["CUDA_VISIBLE_DEVICES"]
log = os.open(folder + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
lock = os.open(folder + "/" + card, os.O_RDWR | os.O_CREAT, 0o644)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.write(log, f"two {number} {card}\\n".encode())
os.write(log, f"start {number} {card}\\n".encode())
if number.startswith("blocker"):
    print("up", flush=True)
    sys.stdin.read()
else:
    time.sleep(0.02)
os.write(log, f"end {number} {card}\\n".encode())
"""


class Field:
    """A folder in which jobs leave their traces."""

    def __init__(self, path: pathlib.Path, fallow: Fallow) -> None:
        self.path = path
        self.fallow = fallow
        (path / "job.py").write_text(JOB)

    def start(self, number: str) -> subprocess.Popen[str]:
        job = [sys.executable, "-I", "-S", str(self.path / "job.py"), str(self.path), number]
        return self.fallow.start("run", "--wait", "--", *job)

    def log(self) -> list[list[str]]:
        return [line.split() for line in (self.path / "log").read_text().splitlines()]


def wait_for_line(process: subprocess.Popen[str]) -> None:
    """Until it stands in line and says so."""
    assert process.stderr is not None
    assert "waiting for 1 GPU" in process.stderr.readline()


def block(field: Field, cards: int) -> list[subprocess.Popen[str]]:
    blockers = [field.start(f"blocker{number}") for number in range(cards)]
    for blocker in blockers:
        assert blocker.stdout is not None
        assert blocker.stdout.readline() == "up\n"
    return blockers


def test_one_card_is_handed_on_in_exact_order_of_arrival(
    make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    make_world(cards=1)
    field = Field(tmp_path, fallow)
    (blocker,) = block(field, 1)
    waiting = []
    for number in range(10):
        waiting.append(field.start(str(number)))
        wait_for_line(waiting[-1])
    blocker.communicate(timeout=LIMIT_S)
    for process in waiting:
        process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0
    started = [number for what, number, _ in field.log() if what == "start"]
    assert started == ["blocker0", *map(str, range(10))]


def test_many_launches_on_8_cards_with_one_in_four_killed(
    world: World, fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    dice = random.Random(SEED)
    field = Field(tmp_path, fallow)
    blockers = block(field, len(world))
    waiting: dict[str, subprocess.Popen[str]] = {}
    for number in range(LAUNCHES - len(blockers)):
        waiting[str(number)] = field.start(str(number))
        wait_for_line(waiting[str(number)])
    doomed = dice.sample(sorted(waiting), len(waiting) // 4)
    timers = [threading.Timer(dice.uniform(0.0, 2.0), waiting[number].kill) for number in doomed]
    for timer in timers:
        timer.start()
    for blocker in blockers:
        blocker.communicate(timeout=LIMIT_S)
    for number, process in waiting.items():
        process.communicate(timeout=LIMIT_S)
        assert process.returncode in ((0, -9) if number in doomed else (0,)), (number, SEED)
    for timer in timers:
        timer.join(LIMIT_S)
    log = field.log()
    assert [line for line in log if line[0] == "two"] == [], SEED
    started = [int(number) for what, number, _ in log if what == "start" and not number.startswith("blocker")]
    ended = {number for what, number, _ in log if what == "end"}
    assert set(waiting) - set(doomed) <= ended, SEED
    # Cards are given in order, which one card shows exactly; of eight jobs that come up side by side one may be
    # slow to write its first line, while others come and go.
    displaced = max(abs(at - sorted(started).index(number)) for at, number in enumerate(started))
    assert displaced < 3 * len(world), (SEED, started)


def test_16_picks_at_once_on_16_free_cards_give_16_cards(make_world: Callable[..., World], fallow: Fallow) -> None:
    make_world(cards=16)
    picks = [fallow.start("pick") for _ in range(16)]
    cards = [pick.communicate(timeout=LIMIT_S)[0].strip() for pick in picks]
    assert sorted(cards, key=int) == [str(index) for index in range(16)]


def test_a_pick_avoids_what_was_picked_moments_ago_only_while_it_can(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    make_world(cards=2)
    first, second, third = (fallow("pick").stdout for _ in range(3))
    assert {first, second} == {"0\n", "1\n"}
    assert third in (first, second)


def test_who_waits_for_another_card_does_not_stand_in_the_way(
    make_world: Callable[..., World], fallow: Fallow, tmp_path: pathlib.Path
) -> None:
    make_world(cards=2)
    blocker = fallow.start("run", "--gpus", "0", "--", "sh", "-c", "echo up; read line")
    assert blocker.stdout is not None
    blocker.stdout.readline()
    waiting = fallow.start("run", "--gpus", "0", "--wait", "--", "true")
    wait_for_line(waiting)
    assert fallow("run", "--gpus", "1", "--", "true").returncode == 0
    blocker.communicate("\n", timeout=LIMIT_S)
    waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == 0


def test_who_does_not_wait_does_not_jump_the_line(make_world: Callable[..., World], fallow: Fallow) -> None:
    world = make_world(cards=2)
    world[1].utilization = 50
    waiting = fallow.start("run", "-n", "2", "--wait", "--", "true")
    assert waiting.stderr is not None
    assert "waiting for 2 GPUs, first in line" in waiting.stderr.readline()
    impatient = fallow("run", "--", "true")
    assert impatient.returncode == 75
    assert f"pid {waiting.pid} (root: true) came earlier and waits for it" in impatient.stderr.replace(USER, "root")
    world[1].utilization = 0
    waiting.communicate(timeout=LIMIT_S)
    assert waiting.returncode == 0


def test_a_wait_that_runs_out_says_so(make_world: Callable[..., World], fallow: Fallow) -> None:
    make_world(cards=1)[0].utilization = 99
    done = fallow("run", "--wait", "200ms", "--", "true")
    assert done.returncode == 75
    assert "after waiting" in done.stderr
    assert "GPU 0: utilization 99% is above 0%" in done.stderr


def test_a_released_card_wakes_the_line_at_once_and_not_at_the_next_poll(
    make_world: Callable[..., World], fallow: Fallow
) -> None:
    """Counted, not timed: between release and start the driver is asked a few times, not for seconds."""
    world = make_world(cards=1)
    blocker = fallow.start("run", "--", "sh", "-c", "echo up; read line")
    assert blocker.stdout is not None
    blocker.stdout.readline()
    waiting = fallow.start("run", "--wait", "--", "echo", "mine")
    assert waiting.stderr is not None
    waiting.stderr.readline()
    before = world.calls("nvmlDeviceGetUtilizationRates")
    blocker.communicate("\n", timeout=LIMIT_S)
    assert waiting.communicate(timeout=LIMIT_S)[0] == "mine\n"
    assert world.calls("nvmlDeviceGetUtilizationRates") - before <= 2 * 6, "looked in vain for longer than a ring"


def test_the_log_lock_of_the_jobs_really_catches_two_on_a_card(tmp_path: pathlib.Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    held = os.open(tmp_path / "card", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(held, fcntl.LOCK_EX)
    subprocess.run(
        [sys.executable, "-I", "-S", str(tmp_path / "job.py"), str(tmp_path), "1"],
        env={"CUDA_VISIBLE_DEVICES": "card"},
        check=True,
    )
    os.close(held)
    assert (tmp_path / "log").read_text().startswith("two 1 card\n")
