"""The terminal that fallow was started from does not count as a person's, as long as it is that terminal."""

import os
import pathlib
import subprocess
import sys

from tests.places import LIMIT_S

CHECK = """
import os, signal, sys
from fallow.engine.machine.clock import SystemClock
from fallow.engine.machine.presence import PresenceCheck, PresenceRules
from fallow.engine.machine.world import World
from fallow.readers.terminals import Terminals
signal.signal(signal.SIGHUP, signal.SIG_IGN)
orders = os.fdopen(os.dup(0))
os.dup2(os.open(sys.argv[1], os.O_RDWR), 0)
terminals = Terminals(SystemClock(), sessions="/nowhere", devices=sys.argv[2])
check = PresenceCheck(World({}), PresenceRules(), terminals)
print(check.against(), flush=True)
orders.readline()
print(check.against(), flush=True)
"""


def test_a_terminal_that_somebody_else_got_under_the_number_of_ours_counts(tmp_path: pathlib.Path) -> None:
    """A daemon that was started by hand, and outlived its terminal, filled beside whoever got that number next."""
    master, slave = os.openpty()
    name = os.ttyname(slave)
    os.close(slave)
    (tmp_path / "pts").mkdir()
    (tmp_path / "pts" / pathlib.Path(name).name).touch()  # used a moment ago
    words = [sys.executable, "-c", CHECK, name, str(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "None\n", "it is ours"
        os.close(master)
        said, _ = one.communicate("\n", LIMIT_S)
    assert name.removeprefix("/dev/") in said
