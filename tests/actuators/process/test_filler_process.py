"""A filler behind a keeper that is real and does not behave: nothing of it keeps fallow waiting."""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

import pytest

from fallow.actuators.process.filler_process import Filler
from fallow.core.fillers import Presence
from fallow.readers.proc import Proc
from tests.interfaces.cli.filled import wait_for_end

LEAST_S = 10.0
SAYS_THAT_IT_ENDED_AND_STAYS = """
import signal, socket
line = socket.socket(fileno=3)
line.recv(65536)
line.send(b'{"now": "ended", "how": "ended with exit code 0", "survivors": []}')
signal.pause()
"""
STARTS_ONE_AND_IS_SILENT = """
import json, os, signal, socket, subprocess
line = socket.socket(fileno=3)
line.recv(65536)
started = subprocess.Popen(["sleep", "1000"], start_new_session=True)
line.send(json.dumps({"now": "running", "pid": started.pid}).encode())
signal.pause()
"""


def filler(keeper: str, first: Mapping[str, object]) -> Filler:
    """A filler whose keeper is this Python program."""
    return Filler(
        (sys.executable, "-c", keeper),
        (),
        os.environ,
        first=first,
        table=Proc(),
        monotonic_s=time.monotonic,
    )


@pytest.mark.parametrize("length", [70_000, 300_000])
def test_an_order_that_the_keeper_cannot_read_whole_starts_nothing(length: int) -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        filler("", {"gives": {"LONG": "x" * length}})


def test_a_keeper_that_hangs_at_its_end_keeps_nobody_waiting() -> None:
    its = filler(SAYS_THAT_IT_ENDED_AND_STAYS, {})
    while its.presence is not Presence.ABSENT:
        its.wait(1.0)
    closing = threading.Thread(target=its.close)
    closing.start()
    closing.join(LEAST_S)
    hangs = closing.is_alive()
    os.kill(its.keeper, signal.SIGKILL)
    closing.join()
    if not hangs:
        os.waitpid(its.keeper, 0)
    assert not hangs


def test_a_silent_keeper_is_killed_with_all_below_it() -> None:
    its = filler(STARTS_ONE_AND_IS_SILENT, {})
    while its.pid is None:
        its.wait(1.0)
    its.kill_with_keeper()
    wait_for_end([its.keeper, its.pid])
    its.close()
    assert its.presence is Presence.ABSENT
