"""Promise 3: no process is stopped on the word of another user."""

import json
import pathlib
import signal

import pytest

from fallow.readers.proc import Proc
from tests.interfaces.cli.stopped import is_running
from tests.places import LIMIT_S
from tests.security.machine import ADA, BOB, QUICK_RULE, Machine
from tests.standin import Process, World
from tests.waiting import until

pytestmark = pytest.mark.as_root
GIB = 2**30


def test_a_claim_that_blames_another_user_has_only_the_one_who_holds_it_stopped(machine: Machine) -> None:
    """Bob claims a GPU, runs nothing on it, and writes into the claim file that ada's process has it."""
    words = ("--gpus", "0", "--", "env", "-u", "CUDA_VISIBLE_DEVICES", "sleep", "1000")
    bobs = machine.begin(BOB, "run", *words)
    until(lambda: pathlib.Path(f"/proc/{bobs.pid}/comm").read_text() == "sleep\n")
    uuid = Proc().environ(bobs.pid)["FALLOW_CLAIM"]
    adas = machine.start(ADA, "sleep", "1000", FALLOW_CLAIM=uuid)
    stat = Proc().stat(adas.pid)
    assert stat is not None
    label = json.dumps({"pid": adas.pid, "birth": stat.birth, "since": 1.0, "command": "sleep"})
    write = ("sh", "-c", 'printf "%-4096s" "$1" > "$2"', "sh", label, str(machine.claims / uuid))
    assert machine.start(BOB, *write).wait(LIMIT_S) == 0
    daemon = machine.up(QUICK_RULE)
    until(lambda: not (is_running(bobs.pid) and is_running(adas.pid)))
    assert is_running(adas.pid)
    assert bobs.wait(LIMIT_S) == -signal.SIGTERM
    assert daemon.told(str(adas.pid)) == []


def test_a_user_has_no_job_of_another_stopped_by_command_and_stops_their_own(machine: Machine, cards: World) -> None:
    adas, bobs = machine.start(ADA, "sleep", "1000"), machine.start(BOB, "sleep", "1000")
    cards[0].compute = [Process(adas.pid, GIB), Process(bobs.pid, GIB)]
    machine.up()
    for subject in (f"pid:{adas.pid}", "all"):
        refused = machine.fallow(BOB, "stop", subject, "--yes")
        assert (refused.returncode, refused.stdout) == (77, ""), refused.stderr
        assert refused.stderr.count("\n") == 1
    assert is_running(adas.pid)
    assert is_running(bobs.pid)
    done = machine.fallow(BOB, "stop", "mine", "--yes")
    assert done.returncode == 0, done.stderr
    assert bobs.wait(LIMIT_S) == -signal.SIGTERM
    assert is_running(adas.pid)
