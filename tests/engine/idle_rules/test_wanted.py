"""Rules with `when = "wanted"` take an idle GPU back for a launch that waits, and only then."""

import pytest

from fallow.actuators.claims.waitline import Place
from fallow.core.reservations import Note
from tests.harness import Machine
from tests.places import ME

JOB, WAITS, BELOW = 4711, 5000, 4800
RULE = """
[[idle]]
name = "wanted"
when = "wanted"
act = true
idle_for = "20s"
warmup = "0s"
warn_before = "10s"
grace = "5s"
"""


def waits_for(machine: Machine, *gpus: int, pid: int = WAITS, is_pick: bool = False) -> Place:
    """Let a launch wait for these GPUs."""
    note, uuids = Note(pid, program="train"), [machine.gpu(index).uuid for index in gpus]
    return Place(machine.world.folder, machine.clock, note, uuids, is_pick=is_pick)


def test_an_idle_job_is_left_alone_until_a_launch_waits_which_the_warning_names(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    machine.configure(RULE)
    machine.pass_(seconds=100)
    assert machine.done == []
    (counting,) = machine.board.counting
    assert counting.held_back == "nobody waits for its GPUs"
    place = waits_for(machine, 0)
    machine.pass_(seconds=10)
    assert machine.said(f"{ME} waits for GPU 0 with train (pid {WAITS})")
    assert machine.done == [], "the notice is as long as always"
    machine.pass_(seconds=10)
    assert machine.done == [f"SIGTERM to {JOB}"]
    place.close()


def test_a_warning_is_taken_back_when_nobody_waits_any_more(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    place = waits_for(machine, 0)
    machine.configure(RULE)
    machine.pass_(seconds=15)
    assert machine.said("will be stopped")
    place.close()
    machine.pass_(seconds=100)
    assert machine.done == []


@pytest.mark.parametrize(("gpu", "pid"), [(1, WAITS), (0, BELOW)], ids=["another GPU", "of the job itself"])
def test_a_launch_that_could_not_use_the_gpu_changes_nothing(machine: Machine, gpu: int, pid: int) -> None:
    machine.gpu(0).held_by(JOB)
    machine.proc.start(BELOW, parent=JOB)
    place = waits_for(machine, gpu, pid=pid)
    machine.configure(RULE)
    machine.pass_(seconds=100)
    assert machine.done == []
    place.close()


def test_a_pick_that_waits_counts(machine: Machine) -> None:
    machine.gpu(0).held_by(JOB)
    place = waits_for(machine, 0, is_pick=True)
    machine.configure(RULE)
    machine.pass_(seconds=30)
    assert machine.done == [f"SIGTERM to {JOB}"]
    place.close()
