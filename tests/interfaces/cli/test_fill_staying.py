"""A filler that frees its memory first and ends a moment later, so that a newcomer does not wait for its end."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from fallow.actuators.process.yield_channel import VARIABLE, KeeperLine, YieldLine
from tests.conftest import Fallow
from tests.interfaces.cli.filled import Fill, until_there, wait_for_lines
from tests.places import LIMIT_S

# Writes down what its keeper lets it do when it is asked to leave.
LISTENER = """
import os, signal, sys
def leave(*_):
    number = int(os.environ["FALLOW_YIELD_LINE"].split(":")[0])
    open(sys.argv[1], "w").write(os.read(number, 64).decode() + "\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, leave)
open(sys.argv[2], "w").write("here\\n")
while True:
    signal.pause()
"""

# Talks to its keeper without pause, and writes down whether it was listened to: its line is full, and stays so.
TALKER = """
import os, select, sys
number = int(os.environ["FALLOW_YIELD_LINE"].split(":")[0])
os.set_blocking(number, False)
try:
    while True:
        os.write(number, b".")
except BlockingIOError:
    pass
poll = select.poll()
poll.register(number, select.POLLOUT)
open(sys.argv[1], "w").write("heard\\n" if poll.poll(1000) else "not heard\\n")
select.select([], [], [])
"""


@pytest.fixture
def newcomer(simulated: Fallow) -> Iterator[Callable[[], None]]:
    """Somebody who comes to simulated GPU 0."""
    came: list[subprocess.Popen[bytes]] = []

    def come() -> None:
        environ = {**simulated.environ, "CUDA_VISIBLE_DEVICES": "0"}
        came.append(subprocess.Popen(["sleep", "1000"], env=environ))

    yield come
    for process in came:
        process.kill()
        process.wait(LIMIT_S)


def listening_filler(simulated: Fallow, folder: pathlib.Path, *options: str) -> tuple[Fill, pathlib.Path]:
    said, here = folder / "said", folder / "here"
    words = ("--", sys.executable, "-c", LISTENER, str(said), str(here))
    fill = Fill(simulated.start("fill", "--gpus", "0", "--idle-for", "0", *options, *words))
    wait_for_lines(here, 1)
    return fill, said


@pytest.mark.parametrize(("grace", "seconds"), [("2s", "1"), ("0.5s", "0.25")])
def test_for_a_newcomer_a_filler_may_stay_without_its_memory_within_its_grace(
    simulated: Fallow, newcomer: Callable[[], None], tmp_path: pathlib.Path, grace: str, seconds: str
) -> None:
    fill, said = listening_filler(simulated, tmp_path, "--grace", grace)
    newcomer()
    fill.until("given back after")
    assert said.read_text() == f"{seconds}\n"


def test_whoever_has_claimed_the_card_is_not_kept_waiting_by_a_filler_that_stays(
    simulated: Fallow, tmp_path: pathlib.Path
) -> None:
    _, said = listening_filler(simulated, tmp_path)
    assert simulated("run", "--gpus", "0", "--", "true").returncode == 0
    assert said.read_text() == "0\n"


@pytest.mark.more
def test_burn_stays_and_the_card_counts_as_given_back_when_its_memory_is_free(
    simulated: Fallow, newcomer: Callable[[], None]
) -> None:
    fill = Fill(simulated.start("fill", "--gpus", "0", "--idle-for", "0", "--grace", "20s", "--", "fallow", "burn"))
    fill.until("filling it")
    until_there(fill.process.pid, "fallow.engine.burn.worker")  # from then on it leaves in good order
    newcomer()
    fill.until("giving it back")
    asked_s = time.monotonic()
    line = fill.until("given back after")
    gone_s = time.monotonic() - asked_s
    [(number, unit)] = re.findall(r"given back after ([\d.]+) ?(ms|s)\b", line)
    freed_s = float(number) / (1000 if unit == "ms" else 1)
    assert gone_s - freed_s > 0.5, "it ended at once"


@pytest.mark.more
def test_a_filler_that_talks_without_pause_is_not_listened_to_before_it_is_asked(
    simulated: Fallow, newcomer: Callable[[], None], tmp_path: pathlib.Path
) -> None:
    """It is the last to get CPU time, and had keeper and daemon, which are not, use a core each."""
    told = tmp_path / "told"
    words = ("--", sys.executable, "-c", TALKER, str(told))
    fill = Fill(simulated.start("fill", "--gpus", "0", "--idle-for", "0", *words))
    assert wait_for_lines(told, 1) == ["not heard"]
    newcomer()
    fill.until("given back after")


def test_only_the_line_that_the_keeper_gave_is_used() -> None:
    keeper = KeeperLine()
    number, inode = keeper.gives[VARIABLE].split(":")
    ours = os.dup(int(number))
    keeper.started()
    keeper.let_stay(0.5)
    for wrong in ("", "x", f"{ours}", f"{ours}:{int(inode) + 1}", "99999999:1", f"-1:{inode}", "0:0", "²:1"):
        assert YieldLine.of({VARIABLE: wrong}) is None
    line = YieldLine.of({VARIABLE: f"{ours}:{inode}"})
    assert line is not None
    assert line.may_stay_s() == 0.5
    assert line.may_stay_s() == 0.0
    assert keeper.read() is False
    line.tell_freed()
    assert keeper.read() is True
    line.close()
    assert keeper.read() is None
    keeper.close()


@pytest.mark.parametrize(("said", "stays"), [(b"nan", 0.0), (b"-1", 0.0), (b"1e9", 10.0), (b"\xff", 0.0), (b"", 0.0)])
def test_nonsense_on_the_line_keeps_nobody(said: bytes, stays: float) -> None:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        ours.send(said)
        assert YieldLine(its).may_stay_s() == stays
